//! A trial of estimators on a record: what they are told, and what they are asked in between.
//!
//! A trial follows the record in time order. Up to its border everything that may be told is, and nothing is asked;
//! after it questions fall at instants that are uniform in the time that hosts were there, and whatever happened before
//! a question is known when it is answered. No estimator sees what comes later.

use std::collections::BTreeMap;

use idlewild_protocol::DepartureCause;

use super::super::record::{Record, Up};
use super::super::{Ending, Estimator, Surroundings};
use super::{Forecast, Outcome};

/// Questions of a trial.
const QUESTIONS: usize = 20_000;

/// Estimators that keep a history are fitted anew this often, in seconds.
const REFIT_S: f64 = 86_400.0;

/// How a record is divided.
pub struct Split<'a> {
    /// When questions begin.
    pub border_s: f64,
    /// Of which sessions, by index, questions are asked. These alone are told after the border.
    pub asks: &'a dyn Fn(usize, &Up) -> bool,
    /// Which sessions are told before the border.
    pub tells_before: &'a dyn Fn(usize, &Up) -> bool,
}

/// A live session at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// When.
    pub at_s: f64,
    /// Of which host of the record.
    pub host: usize,
    /// How old the session was.
    pub age_s: f64,
    /// What became of it.
    pub outcome: Outcome,
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

/// What is told and asked, in time order.
#[derive(Debug)]
pub struct Trial {
    events: Vec<Event>,
    questions: Vec<Question>,
    /// Hours that the hosts' clocks are ahead.
    ahead_hours: Vec<Option<f64>>,
}

impl Trial {
    /// The trial that a split makes of a record. It may have no question.
    pub fn new(record: &Record, split: &Split<'_>) -> Self {
        let sessions = || record.sessions.iter().enumerate();
        let mut events: Vec<Event> = sessions().filter_map(|(index, up)| told(split, index, up)).flatten().collect();
        // At the same time ends come before beginnings.
        let is_begin = |event: &Event| matches!(event.what, What::Begins { .. });
        events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then(is_begin(a).cmp(&is_begin(b))));
        let asked = sessions().filter(|(index, up)| is_asked(split, *index, up)).map(|(_, up)| up);
        let questions = questions(asked, split.border_s);
        Self { events, questions, ahead_hours: record.ahead_hours.clone() }
    }

    /// What is asked.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Tells an estimator what happened, in order, and asks between: its forecasts, in the order of the questions.
    pub fn forecasts(&self, estimator: &mut dyn Estimator<usize>) -> Vec<Forecast> {
        self.follow(&self.events, &self.questions, estimator)
    }

    /// The same with an estimator for each host, who knows of no other.
    pub fn forecasts_alone(&self, make: &dyn Fn() -> Box<dyn Estimator<usize>>) -> Vec<Forecast> {
        let mut events: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
        for event in &self.events {
            events.entry(event.host).or_default().push(*event);
        }
        let mut asked: BTreeMap<usize, Vec<(usize, Question)>> = BTreeMap::new();
        for (index, question) in self.questions.iter().enumerate() {
            asked.entry(question.host).or_default().push((index, *question));
        }
        let mut all: Vec<(usize, Forecast)> = Vec::with_capacity(self.questions.len());
        for (host, asked) in &asked {
            let questions: Vec<Question> = asked.iter().map(|(_, question)| *question).collect();
            let events = events.get(host).map_or(&[][..], Vec::as_slice);
            let forecasts = self.follow(events, &questions, make().as_mut());
            all.extend(asked.iter().map(|(index, _)| *index).zip(forecasts));
        }
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, forecast)| forecast).collect()
    }

    fn follow(&self, events: &[Event], questions: &[Question], estimator: &mut dyn Estimator<usize>) -> Vec<Forecast> {
        let mut forecasts = Vec::with_capacity(questions.len());
        let (mut next_fit_s, mut events) = (f64::NEG_INFINITY, events.iter().peekable());
        for question in questions {
            while let Some(event) = events.next_if(|event| event.at_s <= question.at_s) {
                self.tell(event, estimator);
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

    fn tell(&self, event: &Event, estimator: &mut dyn Estimator<usize>) {
        match event.what {
            What::Begins { is_seen } => {
                // The zero of the clock counts as a Monday, 00:00 UTC: only that a week is seven days matters.
                let ahead_hours = self.ahead_hours.get(event.host).copied().flatten();
                let week_offset_s = ahead_hours.map(|hours| hours * 3600.0);
                let surroundings = Surroundings { week_offset_s, ..Surroundings::default() };
                estimator.begin(event.at_s, &event.host, is_seen.then_some(0.0), surroundings);
            }
            What::Ends(ending) => estimator.end(event.at_s, &event.host, ending),
        }
    }
}

/// Beginning and end of a session as far as the split tells of it: of one that is not asked about, what is seen before
/// the border; of one that is not told before the border, what begins after it.
fn told(split: &Split<'_>, index: usize, up: &Up) -> Option<[Event; 2]> {
    let (before, after) = ((split.tells_before)(index, up), (split.asks)(index, up));
    if up.start_s < split.border_s && !before || up.start_s >= split.border_s && !after {
        return None;
    }
    let is_cut = !after && up.end_s > split.border_s;
    let departed = Ending::Departed(DepartureCause::Unknown);
    let ending = if up.is_end_seen && !is_cut { departed } else { Ending::Censored };
    let end_s = if is_cut { split.border_s } else { up.end_s };
    let begins = Event { at_s: up.start_s, host: up.host, what: What::Begins { is_seen: up.is_start_seen } };
    Some([begins, Event { at_s: end_s, host: up.host, what: What::Ends(ending) }])
}

/// Whether questions may fall into a session: its age must be known, and a session that crosses the border and was not
/// told before is told of neither before nor after.
fn is_asked(split: &Split<'_>, index: usize, up: &Up) -> bool {
    let is_known = up.start_s >= split.border_s || (split.tells_before)(index, up);
    is_known && up.is_start_seen && up.end_s > split.border_s && (split.asks)(index, up)
}

/// Instants that are uniform in the time that these sessions lasted after the border.
fn questions<'a>(asked: impl Iterator<Item = &'a Up>, border_s: f64) -> Vec<Question> {
    let asked: Vec<&Up> = asked.collect();
    let length_s = |up: &Up| up.end_s - up.start_s.max(border_s);
    let total_s: f64 = asked.iter().map(|up| length_s(up)).sum();
    let step_s = total_s / QUESTIONS as f64;
    let mut questions = Vec::new();
    if step_s <= 0.0 {
        return questions;
    }
    let (mut passed_s, mut next_s) = (0.0, step_s / 2.0);
    for up in asked {
        while next_s < passed_s + length_s(up) {
            let at_s = up.start_s.max(border_s) + next_s - passed_s;
            let outcome = Outcome { stayed_s: up.end_s - at_s, left: up.is_end_seen };
            questions.push(Question { at_s, host: up.host, age_s: at_s - up.start_s, outcome });
            next_s += step_s;
        }
        passed_s += length_s(up);
    }
    questions.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    questions
}

#[cfg(test)]
mod tests {
    use super::super::super::KaplanMeiers;
    use super::*;

    fn record() -> Record {
        Record::parse("host,start_s,end_s\na,0,10\na,20,50\na,60,90\nb,0,80\n").unwrap()
    }

    #[test]
    fn questions_are_uniform_in_the_time_after_the_border() {
        let split = Split { border_s: 40.0, asks: &|_, up| up.host == 0, tells_before: &|_, _| true };
        let trial = Trial::new(&record(), &split);
        assert!(trial.questions().iter().all(|q| q.host == 0 && q.at_s > 40.0));
        let in_first = trial.questions().iter().filter(|q| q.at_s < 50.0).count();
        assert_eq!((trial.questions().len(), in_first), (QUESTIONS, QUESTIONS / 4));
        let first = trial.questions()[0];
        assert!((first.age_s - 20.0).abs() < 0.01 && (first.outcome.stayed_s - 10.0).abs() < 0.01);
        // The other host is told as far as the border, and its end is not.
        let ends: Vec<f64> =
            trial.events.iter().filter(|e| e.host == 1 && matches!(e.what, What::Ends(_))).map(|e| e.at_s).collect();
        assert_eq!(ends, [40.0]);
    }

    #[test]
    fn no_estimator_is_told_what_comes_later() {
        let split = Split { border_s: 55.0, asks: &|_, up| up.host == 0, tells_before: &|_, _| true };
        let (seen, mut other) = (Trial::new(&record(), &split), record());
        other.sessions[2].end_s = 3000.0;
        let changed = Trial::new(&other, &split);
        let told = |trial: &Trial, until_s: f64| -> Vec<String> {
            trial.events.iter().filter(|event| event.at_s <= until_s).map(|event| format!("{event:?}")).collect()
        };
        assert_eq!(told(&seen, 89.0), told(&changed, 89.0), "the end of the session that is asked about");
        assert_ne!(told(&seen, 90.0), told(&changed, 90.0));
    }

    #[test]
    fn alone_a_host_knows_of_no_other() {
        let split = Split { border_s: 55.0, asks: &|_, up| up.host == 0, tells_before: &|_, _| true };
        let trial = Trial::new(&record(), &split);
        let make = || -> Box<dyn Estimator<usize>> { Box::new(KaplanMeiers::pooled()) };
        let alone = trial.forecasts_alone(&make);
        let only = Record::parse("host,start_s,end_s\na,0,10\na,20,50\na,60,90\n").unwrap();
        assert_eq!(alone, Trial::new(&only, &split).forecasts(&mut KaplanMeiers::pooled()));
        assert_ne!(alone, trial.forecasts(&mut KaplanMeiers::pooled()));
    }

    #[test]
    fn a_record_without_time_after_the_border_asks_nothing() {
        let split = Split { border_s: 100.0, asks: &|_, _| true, tells_before: &|_, _| true };
        assert!(Trial::new(&record(), &split).questions().is_empty());
        assert!(Trial::new(&Record::default(), &split).questions().is_empty());
    }
}
