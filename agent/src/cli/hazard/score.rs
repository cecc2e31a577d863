//! `idlewild hazard score`: the default estimator beside Kaplan-Meier curves, on recorded sessions.

use std::path::Path;

use idlewild_coordinator::hazard::scores::{
    Binary, EDGES_S, Forecast, HeldOut, brier, calibration_error, concordance, held_out, log_loss,
};
use idlewild_coordinator::hazard::{Estimator, Frailty, KaplanMeiers};
use serde::Serialize;

use super::super::failure::Failure;
use super::super::format::{count, table as aligned};
use super::super::{Exit, Printer};
use super::args::ScoreArgs;
use super::table;

/// Departures from which a peer's Kaplan-Meier curve is its own; before that it is the pooled one.
const MIN_SESSIONS: usize = 5;

/// The index of 5 min among the edges at which forecasts are scored.
const FIVE_MIN: usize = 2;

/// Below this many sessions figures say little.
const FEW_SESSIONS: usize = 100;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Scores {
    /// When questions begin, in seconds by the tables' clock.
    border_s: f64,
    /// Hosts of either table.
    hosts: usize,
    /// Hosts of both.
    hosts_in_both: usize,
    /// Sessions to learn from before the border.
    sessions_learnt: usize,
    /// Sessions of the other table that end after it.
    sessions_tested: usize,
    questions: usize,
    /// The default first.
    estimators: Vec<EstimatorScores>,
}

#[derive(Debug, Serialize)]
struct EstimatorScores {
    name: &'static str,
    /// Mean, in nats, of the interval in which the departure fell.
    log_loss: f64,
    /// Of leaving within 5 min, over the questions whose answer was seen.
    brier_5min: f64,
    /// Probability that who left within 5 min had been given more than who stayed; none where all did the same.
    auc_5min: Option<f64>,
    /// Mean distance of probability and frequency over ten groups of equal size.
    calibration_error_5min: f64,
    /// What was forecast for 5 min on average, and what happened.
    predicted_5min: f64,
    happened_5min: f64,
}

pub(super) fn score(printer: &mut Printer, args: &ScoreArgs) -> Result<Exit, Failure> {
    let (train, test) = (table::record(&args.train)?, table::record(&args.test)?);
    let tested = held_out(&train, &test).map_err(|error| Failure::new(Exit::Usage, error))?;
    let scores = scores(&tested);
    if args.json {
        printer.json(&scores)?;
    } else {
        for line in lines(&scores, &args.train, &args.test) {
            printer.line(line)?;
        }
    }
    if tested.sessions_learnt.min(tested.sessions_tested) < FEW_SESSIONS {
        let few = "there are few sessions: another hundred could turn these figures round";
        printer.warning(few);
    }
    Ok(Exit::Fine)
}

fn scores(tested: &HeldOut) -> Scores {
    let estimators: [(&'static str, Box<dyn Estimator<usize>>); 3] = [
        ("frailty (default)", Box::new(Frailty::default())),
        ("kaplan-meier per peer", Box::new(KaplanMeiers::per_peer(MIN_SESSIONS))),
        ("kaplan-meier pooled", Box::new(KaplanMeiers::pooled())),
    ];
    let score = |(name, mut estimator): (&'static str, Box<dyn Estimator<usize>>)| {
        of_forecasts(name, &tested.trial.forecasts(estimator.as_mut()))
    };
    Scores {
        border_s: tested.border_s,
        hosts: tested.hosts.len(),
        hosts_in_both: tested.hosts_in_both,
        sessions_learnt: tested.sessions_learnt,
        sessions_tested: tested.sessions_tested,
        questions: tested.trial.questions().len(),
        estimators: estimators.into_iter().map(score).collect(),
    }
}

fn of_forecasts(name: &'static str, forecasts: &[Forecast]) -> EstimatorScores {
    let leaves: Vec<Binary> = forecasts.iter().filter_map(|forecast| forecast.leaves_within(FIVE_MIN)).collect();
    let mean = |value: fn(&Binary) -> f64| leaves.iter().map(value).sum::<f64>() / leaves.len().max(1) as f64;
    EstimatorScores {
        name,
        log_loss: log_loss(forecasts),
        brier_5min: brier(&leaves),
        auc_5min: concordance(&leaves),
        calibration_error_5min: calibration_error(&leaves),
        predicted_5min: mean(|binary| binary.probability),
        happened_5min: mean(|binary| f64::from(u8::from(binary.happened))),
    }
}

fn lines(scores: &Scores, train: &Path, test: &Path) -> Vec<String> {
    let mut lines = vec![
        format!(
            "learnt from {} of {} before {:.0} s, and from the past of who is asked about",
            count(scores.sessions_learnt, "session"),
            train.display(),
            scores.border_s
        ),
        format!(
            "asked {} times about {} of {} after that; {} in both",
            scores.questions,
            count(scores.sessions_tested, "session"),
            test.display(),
            count(scores.hosts_in_both, "host"),
        ),
        String::new(),
    ];
    let header = ["ESTIMATOR", "LOG LOSS", "BRIER 5 MIN", "AUC 5 MIN", "CALIBRATION ERROR 5 MIN"];
    let rows = scores.estimators.iter().map(|of| {
        let auc = of.auc_5min.map_or_else(|| "-".to_owned(), |auc| format!("{auc:.3}"));
        let [loss, brier, error] =
            [of.log_loss, of.brier_5min, of.calibration_error_5min].map(|figure| format!("{figure:.4}"));
        vec![of.name.to_owned(), loss, brier, auc, error]
    });
    let rows: Vec<Vec<String>> = std::iter::once(header.map(str::to_owned).to_vec()).chain(rows).collect();
    lines.extend(aligned(&rows));
    lines.push(String::new());
    lines.push(format!(
        "log loss: nats, of the interval in which a departure fell ({} s, later). Less is better but for AUC.",
        EDGES_S.map(|edge_s| edge_s.to_string()).join(", ")
    ));
    lines
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use idlewild_coordinator::hazard::record::Record;

    use super::*;

    /// Hosts of two kinds, whose sessions are short or long by a draw of its own.
    fn record(hosts: std::ops::Range<u64>, from_s: u64, sessions: u64) -> Record {
        let mut rows = String::from("host,start_s,end_s,censored\n");
        let mut draw = 0x9e37_79b9_7f4a_7c15_u64 ^ from_s;
        for host in hosts {
            let mean_s = if host % 2 == 0 { 300.0 } else { 7200.0 };
            let mut at_s = from_s as f64;
            for _ in 0..sessions {
                draw ^= draw << 13;
                draw ^= draw >> 7;
                draw ^= draw << 17;
                let part = ((draw >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
                let length_s = -part.ln() * mean_s;
                writeln!(rows, "h{host},{at_s},{},0", at_s + length_s).unwrap();
                at_s += length_s + 600.0;
            }
        }
        Record::parse(&rows).unwrap()
    }

    #[test]
    fn the_default_beats_both_curves_on_hosts_that_differ() {
        let scores = scores(&held_out(&record(0..40, 0, 60), &record(0..40, 600_000, 20)).unwrap());
        let [frailty, per_peer, pooled] = scores.estimators.as_slice() else { panic!("three estimators") };
        assert!(frailty.log_loss < per_peer.log_loss && frailty.log_loss < pooled.log_loss, "{scores:#?}");
        assert!(frailty.calibration_error_5min <= 0.03, "{scores:#?}");
        assert!((frailty.predicted_5min - frailty.happened_5min).abs() <= 0.03);
        assert_eq!((scores.hosts, scores.hosts_in_both, scores.questions), (40, 40, 20_000));
    }

    #[test]
    fn a_table_of_two_sessions_is_scored_too() {
        let tiny = Record::parse("host,start_s,end_s\na,0,10\na,20,400\n").unwrap();
        let scores = scores(&held_out(&tiny, &tiny).unwrap());
        assert!(scores.estimators.iter().all(|of| of.log_loss.is_finite() && of.brier_5min.is_finite()));
        let text = lines(&scores, Path::new("a.csv"), Path::new("b.csv")).join("\n");
        for expected in [
            "2 sessions of a.csv",
            "1 session of b.csv",
            "1 host in both",
            "frailty (default)",
            "30, 120, 300, 900, 3600 s",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
        }
    }
}
