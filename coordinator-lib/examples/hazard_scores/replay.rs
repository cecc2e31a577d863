//! Tells each estimator what happened, in order, and asks between.

use idlewild_coordinator::hazard::scores::Forecast;
use idlewild_coordinator::hazard::{Ending, Estimator, Frailty, KaplanMeiers, Surroundings, Weibulls};
use idlewild_protocol::DepartureCause;

use crate::ask::{Question, Split, border_s};
use crate::record::{Record, Up};

/// Estimators that keep a history are fitted anew this often, in seconds.
const REFIT_S: f64 = 86_400.0;

/// Departures from which a peer's Kaplan-Meier curve is its own.
const MIN_SESSIONS: usize = 5;

/// The forecasts of one estimator, in the order of the questions.
#[derive(Debug)]
pub(crate) struct Scored {
    pub(crate) name: &'static str,
    pub(crate) forecasts: Vec<Forecast>,
}

/// All estimators on the same questions; the first is the one that others are compared with.
pub(crate) fn all(record: &Record, split: Split, questions: &[Question]) -> Vec<Scored> {
    let mut estimators: Vec<(&'static str, Box<dyn Estimator<usize>>)> = vec![
        ("kaplan-meier pooled", Box::new(KaplanMeiers::pooled())),
        ("kaplan-meier per peer", Box::new(KaplanMeiers::per_peer(MIN_SESSIONS))),
        ("weibull", Box::new(Weibulls::default())),
        ("frailty", Box::new(Frailty::default())),
    ];
    let events = events(record, split);
    let score = |(name, estimator): &mut (&'static str, Box<dyn Estimator<usize>>)| {
        let forecasts = replay(record, &events, questions, estimator.as_mut());
        Scored { name, forecasts }
    };
    estimators.iter_mut().map(score).collect()
}

#[derive(Debug, Clone, Copy)]
enum What {
    Ends(Ending),
    Begins { is_seen: bool },
}

#[derive(Debug, Clone, Copy)]
struct Event {
    at_s: f64,
    host: usize,
    what: What,
}

/// What is told of all sessions, in time order; at the same time ends come before beginnings.
fn events(record: &Record, split: Split) -> Vec<Event> {
    let border_s = border_s(record);
    let mut events: Vec<Event> =
        record.sessions.iter().filter_map(|up| told(record, split, up, border_s)).flatten().collect();
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then(is_begin(a).cmp(&is_begin(b))));
    events
}

fn is_begin(event: &Event) -> bool {
    matches!(event.what, What::Begins { .. })
}

/// Beginning and end of a session as far as the split tells of it: of a host that is not asked, what is seen before the
/// border; of one that is asked alone, what begins after it.
fn told(record: &Record, split: Split, up: &Up, border_s: f64) -> Option<[Event; 2]> {
    let (before, after) = (split.tells_before(record, up.host), split.asks(record, up.host));
    if up.start_s < border_s && !before || up.start_s >= border_s && !after {
        return None;
    }
    let is_cut = !after && up.end_s > border_s;
    let departed = Ending::Departed(DepartureCause::Unknown);
    let ending = if up.is_end_seen && !is_cut { departed } else { Ending::Censored };
    let end_s = if is_cut { border_s } else { up.end_s };
    let begins = Event { at_s: up.start_s, host: up.host, what: What::Begins { is_seen: up.is_start_seen } };
    Some([begins, Event { at_s: end_s, host: up.host, what: What::Ends(ending) }])
}

fn replay(
    record: &Record,
    events: &[Event],
    questions: &[Question],
    estimator: &mut dyn Estimator<usize>,
) -> Vec<Forecast> {
    let mut forecasts = Vec::with_capacity(questions.len());
    let (mut next_fit_s, mut events) = (f64::NEG_INFINITY, events.iter().peekable());
    for question in questions {
        while let Some(event) = events.next_if(|event| event.at_s <= question.at_s) {
            tell(record, event, estimator);
        }
        if question.at_s >= next_fit_s {
            estimator.refit(question.at_s);
            next_fit_s = question.at_s + REFIT_S;
        }
        let prediction = estimator.predict(question.at_s, &question.host, question.age_s);
        forecasts.push(Forecast::new(&prediction.hazard(), question.outcome));
    }
    forecasts
}

fn tell(record: &Record, event: &Event, estimator: &mut dyn Estimator<usize>) {
    match event.what {
        What::Begins { is_seen } => {
            // The zero of the clock counts as a Monday, 00:00 UTC: only that a week is seven days matters.
            let week_offset_s = record.ahead_hours[event.host].map(|hours| hours * 3600.0);
            let surroundings = Surroundings { week_offset_s, ..Surroundings::default() };
            estimator.begin(event.at_s, &event.host, is_seen.then_some(0.0), surroundings);
        }
        What::Ends(ending) => estimator.end(event.at_s, &event.host, ending),
    }
}
