//! `idlewild hazard`: how long this machine is expected to be left alone, and how good such forecasts were.

mod args;
mod import;
mod plot;
mod score;
mod table;

use super::client::Client;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::format::{count, percent, seconds, table as aligned};
use super::{Exit, Printer};
use crate::api::wire::{CalibrationReply, HazardReply};
use crate::config::Layer;
use crate::driver::recorded_hazard;
use crate::store::Store;

pub(super) use args::HazardArgs;
use args::HazardCommand;

pub(super) async fn hazard(context: &Context, printer: &mut Printer, args: HazardArgs) -> Result<Exit, Failure> {
    match args.command {
        None => show(context, printer, args.json).await,
        Some(HazardCommand::Score(args)) => score::score(printer, &args),
        Some(HazardCommand::Import(args)) => import::import(context, printer, &args).await,
    }
}

async fn show(context: &Context, printer: &mut Printer, json: bool) -> Result<Exit, Failure> {
    let asked = match Client::new(&context.paths) {
        Ok(client) => client.get("/idlewild/v1/hazard").await,
        Err(failure) => Err(failure),
    };
    let reply = match asked {
        // One that was killed has left word of where it listened.
        Err(failure) if failure.exit() == Exit::NoAgent => on_record(context).await?,
        asked => asked?,
    };
    if json {
        printer.json(&reply)?;
        return Ok(Exit::Fine);
    }
    for line in lines(&reply, plot::Look::of_process()) {
        printer.line(line)?;
    }
    Ok(Exit::Fine)
}

/// What is on record where no agent runs; nothing is made where there is no record yet.
async fn on_record(context: &Context) -> Result<HazardReply, Failure> {
    let (config, _) = context.config(Layer::default())?;
    let path = context.paths.database_file();
    if !path.exists() {
        return Ok(recorded_hazard(config.owner.source, &[], &[]));
    }
    let store = Store::open(&path).or_exit(Exit::State)?;
    let sessions = store.sessions().await.or_exit(Exit::State)?;
    let forecasts = store.forecasts().await.or_exit(Exit::State)?;
    Ok(recorded_hazard(config.owner.source, &sessions, &forecasts))
}

fn lines(reply: &HazardReply, look: plot::Look) -> Vec<String> {
    let mut lines = vec![format!("record   {}", record(reply)), format!("session  {}", session(reply))];
    let leaves = reply
        .leaves
        .iter()
        .map(|leaves| format!("{} within {}", percent(Some(leaves.probability)), seconds(leaves.within_s as u64)));
    lines.push(format!("leaves   {}", leaves.collect::<Vec<_>>().join(", ")));
    lines.push(String::new());
    lines.extend(plot::survival(&reply.curve, look));
    lines.push(String::new());
    lines.extend(calibration(&reply.calibration));
    lines
}

fn record(reply: &HazardReply) -> String {
    let sessions = count(reply.sessions as usize, "session");
    let belief = if reply.is_unused { "; set to always idle" } else { "" };
    if reply.sessions == 0 {
        return format!("no session yet: what is shown is believed of machines in general{belief}");
    }
    format!("{sessions}; taken back {:.1} times as soon as machines in general{belief}", reply.factor)
}

fn session(reply: &HazardReply) -> String {
    match (reply.age_s, reply.is_running) {
        (Some(age_s), _) => format!("since {}", seconds(age_s as u64)),
        (None, true) => "none now; below: one that begins".to_owned(),
        (None, false) => "no agent is running; below: one that begins".to_owned(),
    }
}

/// How good the forecasts at fixed ages of sessions were.
fn calibration(horizons: &[CalibrationReply]) -> Vec<String> {
    if horizons.iter().all(|horizon| horizon.forecasts == 0) {
        return vec![
            "No forecast has an outcome yet: they are kept when a session is 1, 5, 15, 30 min, 1, 2, 4 h old."
                .to_owned(),
        ];
    }
    let mut rows = vec![["LEAVES WITHIN", "FORECAST", "TIMES", "ON AVERAGE", "HAPPENED"].map(str::to_owned).to_vec()];
    for horizon in horizons {
        for group in &horizon.groups {
            rows.push(vec![
                seconds(horizon.within_s as u64),
                format!("{:.0}-{:.0} %", 100.0 * group.from, 100.0 * group.to),
                group.forecasts.to_string(),
                format!("{:.1} %", 100.0 * group.predicted),
                format!("{:.1} %", 100.0 * group.observed),
            ]);
        }
    }
    let mut lines = aligned(&rows);
    for horizon in horizons.iter().filter(|horizon| horizon.forecasts > 0) {
        lines.push(format!(
            "within {}: calibration error {:.3}, Brier {:.3}, {}",
            seconds(horizon.within_s as u64),
            horizon.calibration_error,
            horizon.brier,
            count(horizon.forecasts, "forecast"),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OwnerChoice;
    use crate::store::ForecastRecord;

    const LOOK: plot::Look = plot::Look { width: 60, is_coloured: false };

    #[test]
    fn a_machine_without_history_says_so() {
        let text = lines(&recorded_hazard(OwnerChoice::Scripted, &[], &[]), LOOK).join("\n");
        for expected in ["no session yet", "no agent is running", "within 60 s", "within 30 min", "No forecast has"] {
            assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
        }
    }

    #[test]
    fn forecasts_stand_beside_what_happened() {
        let forecast = ForecastRecord { age_s: 60.0, leaves: [0.012, 0.3, 0.9], length_s: 400.0, has_ended: true };
        let mut reply = recorded_hazard(OwnerChoice::AlwaysIdle, &[], &[forecast; 4]);
        (reply.is_running, reply.age_s, reply.sessions) = (true, Some(75.0), 4);
        let text = lines(&reply, LOOK).join("\n");
        for expected in [
            "4 sessions; taken back",
            "always idle",
            "since 75 s",
            "60 s           1-2 %     4      1.2 %       0.0 %",
            "within 30 min: calibration error 0.100, Brier 0.010, 4 forecasts",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }
}
