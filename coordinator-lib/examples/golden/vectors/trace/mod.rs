//! `sim_trace_*`: whole runs of the published step simulator, replayed over this crate's policies.
//!
//! ```text
//! churn, arrivals --> Replay (one second after the other) --place, should_migrate--> Rule (a policy of this crate)
//!                        |
//!                        +--> Summary, compared with the file's
//! ```
//!
//! A trace holds everything random, so that each policy sees the same arrivals and departures. The accounting is the
//! reference's, with its faults (loads of requests past their estimate turn negative, what is only queued counts as
//! lost, waste is charged when a request is placed): it stands here to be reproduced, and judges nothing.

mod node;
mod replay;
mod request;
mod rule;
mod summary;

use serde::Deserialize;

use super::Unreadable;
use super::report::{Case, Report};
use super::scene::Rates;
use replay::Replay;
use rule::Rule;
use summary::Expect;

/// The only step whose meaning is published: `now` = 0, 1, 2...
const STEP_S: f64 = 1.0;

#[derive(Deserialize)]
struct Trace {
    duration_s: f64,
    warmup_s: f64,
    dt_s: f64,
    hysteresis: f64,
    nodes: Vec<Rates>,
    churn: Vec<Turn>,
    arrivals: Vec<Arrival>,
    expect: Expectations,
}

/// A node comes (1) with the true end of its session, or goes (0).
#[derive(Deserialize, Clone, Copy)]
struct Turn(f64, usize, u8, Option<f64>);

/// When, tokens of the prompt, of the output, and of the output as estimated.
#[derive(Deserialize, Clone, Copy)]
struct Arrival(f64, u32, u32, u32);

/// Every trace has all three.
#[derive(Deserialize)]
struct Expectations {
    reactive_fastest: Expect,
    hazard_aware: Expect,
    oracle: Expect,
}

/// Replays the trace in `text` under each policy that it has a summary of: one case each.
pub(super) fn check(text: &str) -> Result<Report, Unreadable> {
    let mut trace: Trace = serde_json::from_str(text)?;
    trace.validate().map_err(Unreadable::Trace)?;
    trace.churn.sort_by(|a, b| a.0.total_cmp(&b.0));
    trace.arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut report = Report::default();
    let Expectations { reactive_fastest, hazard_aware, oracle } = &trace.expect;
    let rules = [
        (Rule::fastest(), reactive_fastest),
        (Rule::hazard_aware(trace.hysteresis), hazard_aware),
        (Rule::oracle(), oracle),
    ];
    for (id, (rule, expect)) in (0..).zip(rules) {
        let compare = |case: &mut Case<'_>| {
            let requests = Replay::of(&trace, &rule).run();
            expect.check(case, rule.name(), &requests, trace.warmup_s);
            Ok(())
        };
        report.case(id, compare).map_err(Unreadable::Trace)?;
    }
    Ok(report)
}

impl Trace {
    fn validate(&self) -> Result<(), String> {
        if (self.dt_s - STEP_S).abs() > 0.0 {
            return Err(format!("steps of {} s have no published meaning", self.dt_s));
        }
        match self.churn.iter().find(|turn| turn.1 >= self.nodes.len()) {
            Some(Turn(at_s, node, ..)) => Err(format!("the churn at {at_s} names node {node}, which is not there")),
            None => Ok(()),
        }
    }
}
