//! `kaplan_meier` and `hazard_log`.

use idlewild_coordinator::hazard::{CurveSource, HazardLog, KaplanMeier, Session, Survival};
use serde::Deserialize;

use super::Vector;
use super::report::Case;

#[derive(Deserialize)]
pub(super) struct KaplanMeierCase {
    id: u64,
    durations: Vec<f64>,
    observed: Vec<u8>,
    times: Vec<f64>,
    surv: Vec<f64>,
    tail_rate: f64,
    #[serde(rename = "S")]
    unconditional: Vec<Point>,
    conditional: Vec<ConditionalPoint>,
}

#[derive(Deserialize)]
struct Point {
    t: f64,
    #[serde(rename = "S")]
    survival: f64,
}

#[derive(Deserialize)]
struct ConditionalPoint {
    t: f64,
    age: f64,
    #[serde(rename = "conditional_S")]
    survival: f64,
    fail_prob: f64,
}

impl Vector for KaplanMeierCase {
    fn id(&self) -> u64 {
        self.id
    }

    fn check(&self, case: &mut Case<'_>) -> Result<(), String> {
        if self.durations.len() != self.observed.len() {
            return Err("durations and observed differ in length".into());
        }
        let session = |(&length_s, &observed)| Session { length_s, observed: observed == 1 };
        let sessions: Vec<Session> = self.durations.iter().zip(&self.observed).map(session).collect();
        let curve = KaplanMeier::fit(&sessions);
        near_lists(case, "times", curve.times_s(), &self.times);
        near_lists(case, "surv", curve.survivals(), &self.surv);
        case.near("tail_rate", curve.tail_rate(), self.tail_rate);
        for Point { t, survival } in &self.unconditional {
            case.near(format_args!("S({t})"), curve.survival(*t), *survival);
        }
        for ConditionalPoint { t, age, survival, fail_prob } in &self.conditional {
            case.near(format_args!("S({t} given {age})"), curve.conditional(*age, *t), *survival);
            case.near(format_args!("fail_prob({t} given {age})"), curve.leave_probability(*age, *t), *fail_prob);
        }
        Ok(())
    }
}

fn near_lists(case: &mut Case<'_>, what: &str, got: &[f64], expected: &[f64]) {
    case.same(format_args!("number of {what}"), &got.len(), &expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        case.near(format_args!("{what}[{at}]"), *got, *expected);
    }
}

#[derive(Deserialize)]
pub(super) struct HazardLogCase {
    id: u64,
    min_sessions: usize,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    t: f64,
    #[serde(flatten)]
    op: Op,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Join { node: String },
    Leave { node: String },
    Query(Query),
}

#[derive(Deserialize)]
struct Query {
    node: String,
    horizon: f64,
    fail_prob: f64,
    age: f64,
    curve: String,
    n_event_times: usize,
}

impl Vector for HazardLogCase {
    fn id(&self) -> u64 {
        self.id
    }

    fn check(&self, case: &mut Case<'_>) -> Result<(), String> {
        let mut log = HazardLog::new(self.min_sessions);
        for Event { t, op } in &self.events {
            match op {
                Op::Join { node } => log.join(*t, node.clone()),
                Op::Leave { node } => log.leave(*t, node),
                Op::Query(query) => check_query(case, &mut log, *t, query),
            }
        }
        Ok(())
    }
}

fn check_query(case: &mut Case<'_>, log: &mut HazardLog<String>, now_s: f64, query: &Query) {
    let known = log.query(now_s, &query.node);
    let at = format!("at {now_s} {}", query.node);
    case.near(format_args!("{at}: fail_prob"), known.hazard().leave_probability(query.horizon), query.fail_prob);
    case.near(format_args!("{at}: age"), known.age_s, query.age);
    case.same(format_args!("{at}: curve"), &source_name(known.source), &query.curve.as_str());
    case.same(format_args!("{at}: n_event_times"), &known.curve.times_s().len(), &query.n_event_times);
}

/// What the vectors call a curve's source.
pub(super) fn source_name(source: CurveSource) -> &'static str {
    match source {
        CurveSource::Own => "own",
        CurveSource::Pooled => "pooled",
    }
}
