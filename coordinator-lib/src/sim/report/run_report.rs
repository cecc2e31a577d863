//! The figures of one run.

use serde::Serialize;

use super::Outcome;
use super::sample::percentile;

/// One figure of a run: its name in results, and how to read it.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// What results call it; the unit last.
    pub name: &'static str,
    /// Where it stands.
    pub of: fn(&Figures) -> f64,
}

/// Figures of the requests that came after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Figures {
    /// How many came.
    pub requests: f64,
    /// How many were not finished when the run ended. Latencies are of the others.
    pub unfinished: f64,
    /// Seconds from arrival to the last token: the mean,
    pub latency_mean_s: f64,
    /// the median,
    pub latency_p50_s: f64,
    /// the 95th percentile,
    pub latency_p95_s: f64,
    /// and the 99th.
    pub latency_p99_s: f64,
    /// Seconds from arrival to when the first token begins to come: the mean,
    pub first_token_mean_s: f64,
    /// and the 99th percentile.
    pub first_token_p99_s: f64,
    /// Departures that found a request on the peer that left.
    pub losses: f64,
    /// Those with no standby that kept up.
    pub uncovered_losses: f64,
    /// Requests that were hit by such a loss.
    pub requests_hit: f64,
    /// Losses after which the context in the memory of the peer that left was used.
    pub rescued: f64,
    /// Moves before a departure.
    pub planned_moves: f64,
    /// Moves from one queue to another.
    pub requeues: f64,
    /// Preparations that were begun.
    pub preparations: f64,
    /// Seconds in which no token came after the first, for a loss: of all requests together,
    pub stall_s: f64,
    /// and for planned moves.
    pub planned_stall_s: f64,
    /// The 99th percentile over requests of both.
    pub stall_p99_s: f64,
    /// Peer-seconds of work on what had been made before.
    pub recompute_s: f64,
    /// Peer-seconds of preparations.
    pub preparation_s: f64,
    /// Both.
    pub wasted_s: f64,
    /// Gigabytes of KV that travelled.
    pub moved_gb: f64,
    /// The part of the time of peers that are there in which they work.
    pub utilisation: f64,
}

macro_rules! metrics {
    ($($name:ident)*) => { [$(Metric { name: stringify!($name), of: |figures| figures.$name }),*] };
}

/// All figures, in the order in which they are shown.
pub const METRICS: [Metric; 23] = metrics! {
    requests unfinished latency_mean_s latency_p50_s latency_p95_s latency_p99_s first_token_mean_s first_token_p99_s
    losses uncovered_losses requests_hit rescued planned_moves requeues preparations stall_s planned_stall_s stall_p99_s
    recompute_s preparation_s wasted_s moved_gb utilisation
};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// Which policy.
    pub policy: String,
    /// Its figures.
    pub figures: Figures,
}

impl Figures {
    /// Of `outcomes`, those that came before `from_s` left out.
    pub(crate) fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>, from_s: f64, utilisation: f64) -> Self {
        let counted: Vec<&Outcome> = outcomes.filter(|outcome| outcome.arrived_s >= from_s).collect();
        let sum = |of: fn(&Outcome) -> f64| counted.iter().map(|outcome| of(outcome)).sum::<f64>();
        let sorted = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            let mut values: Vec<f64> = counted.iter().filter_map(|outcome| of(outcome)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let latencies = sorted(&Outcome::latency_s);
        let firsts = sorted(&|outcome| outcome.first_token_s.map(|at_s| at_s - outcome.arrived_s));
        let stalls = sorted(&|outcome| outcome.finished_s.map(|_| outcome.stall_s + outcome.planned_stall_s));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / (values.len().max(1) as f64);
        let at = |values: &[f64], share: f64| percentile(values, share).unwrap_or(0.0);
        let (recompute_s, preparation_s) = (sum(|outcome| outcome.recompute_s), sum(|outcome| outcome.preparation_s));
        Self {
            requests: counted.len() as f64,
            unfinished: (counted.len() - latencies.len()) as f64,
            latency_mean_s: mean(&latencies),
            latency_p50_s: at(&latencies, 0.5),
            latency_p95_s: at(&latencies, 0.95),
            latency_p99_s: at(&latencies, 0.99),
            first_token_mean_s: mean(&firsts),
            first_token_p99_s: at(&firsts, 0.99),
            losses: sum(|outcome| f64::from(outcome.losses)),
            uncovered_losses: sum(|outcome| f64::from(outcome.uncovered)),
            requests_hit: sum(|outcome| f64::from(u8::from(outcome.uncovered > 0))),
            rescued: sum(|outcome| f64::from(outcome.rescued)),
            planned_moves: sum(|outcome| f64::from(outcome.planned)),
            requeues: sum(|outcome| f64::from(outcome.requeues)),
            preparations: sum(|outcome| f64::from(outcome.preparations)),
            stall_s: sum(|outcome| outcome.stall_s),
            planned_stall_s: sum(|outcome| outcome.planned_stall_s),
            stall_p99_s: at(&stalls, 0.99),
            recompute_s,
            preparation_s,
            wasted_s: recompute_s + preparation_s,
            moved_gb: sum(|outcome| outcome.moved_bytes) / 1e9,
            utilisation,
        }
    }
}
