//! `idlewild doctor`: how this machine tells whether somebody uses it, and what else it can and cannot see. Asks the agent; where none runs, looks itself.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::args::JsonArgs;
use super::client::Client;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::format::table;
use super::{Exit, Printer};
use crate::api::wire::{DoctorReply, LayerReply, Sees, SystemReply};
use crate::config::{Layer, OwnerChoice};
use crate::owner::conditions::{Eyes, Roots, courtesy};
use crate::owner::notice::Reach;
use crate::owner::rules::{Rule, Seen, Standing, decide, wall_clock};
use crate::owner::{Hearing, OwnerSight, OwnerSource, owner_source};

/// Every layer has answered by then, or is shown as not answering.
const LOOK: Duration = Duration::from_secs(8);

pub(super) async fn doctor(context: &Context, printer: &mut Printer, args: JsonArgs) -> Result<Exit, Failure> {
    let (reply, is_agents) = match Client::new(&context.paths) {
        Ok(client) => match client.get("/idlewild/v1/doctor").await {
            Ok(reply) => (reply, true),
            // Its file stayed behind after a crash.
            Err(failure) if failure.exit() == Exit::NoAgent => (look(context).await?, false),
            Err(failure) => return Err(failure),
        },
        Err(failure) if failure.exit() == Exit::NoAgent => (look(context).await?, false),
        Err(failure) => return Err(failure),
    };
    if args.json {
        printer.json(&reply)?;
        return Ok(Exit::Fine);
    }
    for line in lines(&reply) {
        printer.line(line)?;
    }
    if !is_agents {
        printer.note("no agent runs: this is what one started from here would see");
    }
    for advice in &reply.advice {
        printer.hint(advice);
    }
    Ok(Exit::Fine)
}

/// Looks as an agent would.
async fn look(context: &Context) -> Result<DoctorReply, Failure> {
    let (config, _) = context.config(Layer::default())?;
    let mut source = owner_source(&config.owner, &context.paths, Hearing::Nobody).or_exit(Exit::Failed)?;
    let mut sight = source.sight();
    if config.owner.source == OwnerChoice::Detected {
        let complete = sight.wait_for(OwnerSight::is_complete);
        let looked = async {
            tokio::select! {
                // What it reports meanwhile is in its sight too.
                () = follow(&mut *source) => {}
                _ = complete => {}
            }
        };
        // A layer that hangs is shown as it is.
        timeout(LOOK, looked).await.ok();
    }
    let seen = source.sight().borrow().clone();
    let roots = Roots::under(Path::new(&config.rules.root));
    let conditions = Eyes::new(roots.clone(), std::process::id()).look(&config.rules.exclusive_apps);
    let verdict = decide(&Seen { conditions, ..Seen::default() }, &config.rules, wall_clock());
    let unknown = verdict.findings.iter().filter(|finding| finding.standing == Standing::Unknown);
    // What others use of the processor takes two looks.
    let unseen: Vec<Rule> = unknown.map(|finding| finding.rule).filter(|rule| *rule != Rule::OthersCpu).collect();
    let system = SystemReply::rows(&Reach::look().await, &unseen, &courtesy(&roots), config.engine.yield_to_all);
    Ok(DoctorReply::new(&config.owner, &seen).with_system(system))
}

/// Lets the detector look, for ever.
async fn follow(source: &mut dyn OwnerSource) {
    loop {
        source.next().await;
    }
}

fn lines(reply: &DoctorReply) -> Vec<String> {
    let source =
        serde_json::to_value(reply.source).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let mut lines = vec![format!("source  {source}, away after {} s without input", reply.idle_delay_s)];
    let owner = reply.owner.as_ref().map_or_else(String::new, |owner| format!("{owner}: "));
    lines.push(format!("owner   {owner}{}", reply.reason));
    if !reply.layers.is_empty() {
        let header = ["LAYER", "SEES", "SAYS"].map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(reply.layers.iter().map(row)).collect();
        lines.push(String::new());
        lines.extend(table(&rows));
    }
    if !reply.system.is_empty() {
        let header = ["SYSTEM", "OK", "SAYS"].map(str::to_owned).to_vec();
        let row = |row: &SystemReply| vec![row.what.clone(), word(row.sees).to_owned(), row.says.clone()];
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(reply.system.iter().map(row)).collect();
        lines.push(String::new());
        lines.extend(table(&rows));
    }
    lines
}

fn row(layer: &LayerReply) -> Vec<String> {
    vec![layer.layer.name().to_owned(), word(layer.sees).to_owned(), layer.says.clone()]
}

fn word(sees: Sees) -> &'static str {
    match sees {
        Sees::Looking => "no answer",
        Sees::Yes => "yes",
        Sees::Nothing => "nothing there",
        Sees::Blind => "no",
    }
}
