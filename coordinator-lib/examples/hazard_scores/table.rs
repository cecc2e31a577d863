//! Scores as a table.

use std::collections::BTreeMap;
use std::io::{self, Write};

use idlewild_coordinator::hazard::scores::{
    Binary, EDGES_S, Question, brier_skill, calibration_error, concordance, log_loss,
};

use crate::replay::{Scored, Way};

/// Edges at which calibration and concordance are shown: 30 s, 2, 5, 15 min.
const SHOWN: usize = 4;

/// Prints one line for each estimator, compared with the first.
pub(crate) fn print(way: Way, questions: &[Question], scored: &[Scored], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nsplit {}: {} questions", way.name(), questions.len())?;
    writeln!(
        out,
        "{:<22} {:>9} {:>20} {:>7} {:>28} {:>28}",
        "estimator",
        "log loss",
        "less than the first",
        "skill",
        "calibration 30s 2m 5m 15m",
        "concordance 30s 2m 5m 15m"
    )?;
    for one in scored {
        let (gain, error) = gain(questions, &scored[0], one);
        write!(out, "{:<22} {:>9.4} {:>9.4} +- {:>7.4}", one.name, log_loss(&one.forecasts), gain, error)?;
        write!(out, " {:>7.4}", mean(EDGES_S.iter().enumerate().map(|(edge, _)| skill(one, &scored[0], edge))))?;
        for edge in 0..SHOWN {
            write!(out, " {:>6.4}", calibration_error(&at(one, edge)))?;
        }
        for edge in 0..SHOWN {
            write!(out, " {:>6.3}", concordance(&at(one, edge)).unwrap_or(f64::NAN))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn at(scored: &Scored, edge: usize) -> Vec<Binary> {
    scored.forecasts.iter().filter_map(|forecast| forecast.leaves_within(edge)).collect()
}

fn skill(scored: &Scored, reference: &Scored, edge: usize) -> f64 {
    brier_skill(&at(scored, edge), &at(reference, edge))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// By how much the log loss of `one` is less than that of `reference`, and the half width of its 95 % interval: a host
/// is one draw, whatever the number of its questions.
fn gain(questions: &[Question], reference: &Scored, one: &Scored) -> (f64, f64) {
    let losses = reference.forecasts.iter().zip(&one.forecasts).map(|(a, b)| a.log_loss() - b.log_loss());
    let gain = mean(losses.clone());
    let mut by_host: BTreeMap<usize, f64> = BTreeMap::new();
    for (question, loss) in questions.iter().zip(losses) {
        *by_host.entry(question.host).or_default() += loss - gain;
    }
    let squares: f64 = by_host.values().map(|sum| sum * sum).sum();
    (gain, 1.96 * squares.sqrt() / questions.len().max(1) as f64)
}
