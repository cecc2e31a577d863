//! `idlewild doctor`: how this machine tells whether somebody uses it. Asks the agent; where none runs, looks itself.

use std::time::Duration;

use tokio::time::timeout;

use super::args::JsonArgs;
use super::client::Client;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::format::table;
use super::{Exit, Printer};
use crate::api::wire::{DoctorReply, LayerReply, Sees};
use crate::config::{Layer, OwnerChoice};
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
    Ok(DoctorReply::new(&config.owner, &seen))
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
    lines
}

fn row(layer: &LayerReply) -> Vec<String> {
    let sees = match layer.sees {
        Sees::Looking => "no answer",
        Sees::Yes => "yes",
        Sees::Nothing => "nothing there",
        Sees::Blind => "no",
    };
    vec![layer.layer.name().to_owned(), sees.to_owned(), layer.says.clone()]
}
