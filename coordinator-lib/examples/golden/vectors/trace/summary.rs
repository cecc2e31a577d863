//! What a trace says of a whole run, and the same of a replay.

use serde::Deserialize;

use super::request::Request;
use crate::vectors::report::Case;

/// Of the requests that arrived after the warm-up. Of those alone that were completed, but for `dropped`.
#[derive(Deserialize)]
pub(super) struct Expect {
    completed: usize,
    dropped: usize,
    /// None where none was completed, as its percentiles.
    mean_latency_s: Option<f64>,
    p50_latency_s: Option<f64>,
    p99_latency_s: Option<f64>,
    unplanned_migrations: u32,
    planned_migrations: u32,
    wasted_seconds: f64,
}

impl Expect {
    /// Compares with what became of all requests.
    pub(super) fn check(&self, case: &mut Case<'_>, name: &str, requests: &[Request], warmup_s: f64) {
        let counted = || requests.iter().filter(|request| request.arrived_s >= warmup_s);
        let done: Vec<&Request> = counted().filter(|request| request.latency_s.is_some()).collect();
        case.same(format_args!("{name}: completed"), &done.len(), &self.completed);
        let dropped = counted().filter(|request| request.is_pending).count();
        case.same(format_args!("{name}: dropped"), &dropped, &self.dropped);
        let unplanned = done.iter().map(|request| request.unplanned_moves).sum();
        case.same(format_args!("{name}: unplanned_migrations"), &unplanned, &self.unplanned_migrations);
        let planned = done.iter().map(|request| request.planned_moves).sum();
        case.same(format_args!("{name}: planned_migrations"), &planned, &self.planned_migrations);
        let wasted_s = done.iter().map(|request| request.wasted_s).sum();
        case.near(
            format_args!("{name}: wasted_seconds"),
            rounded_as(self.wasted_seconds, wasted_s),
            self.wasted_seconds,
        );
        self.check_latencies(case, name, &done);
    }

    fn check_latencies(&self, case: &mut Case<'_>, name: &str, done: &[&Request]) {
        let mut latencies_s: Vec<f64> = done.iter().filter_map(|request| request.latency_s).collect();
        latencies_s.sort_by(f64::total_cmp);
        let mean_s = (!done.is_empty()).then(|| latencies_s.iter().sum::<f64>() / done.len() as f64);
        case.near_or_none(format_args!("{name}: mean_latency_s"), mean_s, self.mean_latency_s);
        for (what, share, expected) in [("p50", 0.5, self.p50_latency_s), ("p99", 0.99, self.p99_latency_s)] {
            case.near_or_none(format_args!("{name}: {what}_latency_s"), percentile(&latencies_s, share), expected);
        }
    }
}

/// The value below which this share of `sorted` (in rising order) lies, linear between neighbours.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let low = place.floor() as usize;
    let (from, to) = (sorted.get(low)?, sorted.get((low + 1).min(last))?);
    Some(from + (to - from) * place.fract())
}

/// Published summaries state waste in whole tenths: so does `seconds` then, by the rule for decimals (to the nearest,
/// decided on the exact value).
fn rounded_as(published: f64, seconds: f64) -> f64 {
    let in_tenths = |x: f64| format!("{x:.1}").parse().unwrap_or(x);
    if in_tenths(published) == published { in_tenths(seconds) } else { seconds }
}
