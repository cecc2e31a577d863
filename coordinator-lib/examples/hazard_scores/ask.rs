//! Which questions are asked: of whom, when, and what the answer turned out to be.

use idlewild_coordinator::hazard::scores::Outcome;

use crate::record::{Record, Up};

/// Questions to a record.
const QUESTIONS: usize = 20_000;

/// Which part of the time is learnt from before the first question.
const LEARNT: f64 = 0.7;

/// How hosts and time are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    /// By time.
    Later,
    /// By time and by host.
    New,
}

/// A live session at an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) at_s: f64,
    pub(crate) host: usize,
    pub(crate) age_s: f64,
    pub(crate) outcome: Outcome,
}

impl Split {
    /// Whether questions are asked of this host.
    pub(crate) fn asks(self, record: &Record, host: usize) -> bool {
        self == Self::Later || hash(&record.hosts[host]).is_multiple_of(2)
    }

    /// Whether what happens to this host before the first question is told.
    pub(crate) fn tells_before(self, record: &Record, host: usize) -> bool {
        self == Self::Later || !self.asks(record, host)
    }
}

/// When questions begin.
pub(crate) fn border_s(record: &Record) -> f64 {
    let (first_s, last_s) = record.span_s();
    first_s + LEARNT * (last_s - first_s)
}

/// Instants that are uniform in the time that hosts were up, as far as the beginning of their session was seen.
pub(crate) fn questions(record: &Record, split: Split) -> Vec<Question> {
    let from_s = border_s(record);
    let asked: Vec<&Up> = record
        .sessions
        .iter()
        .filter(|up| up.is_start_seen && split.asks(record, up.host) && up.end_s > from_s)
        .collect();
    // A session that crosses the border of the split is told of neither before nor after.
    let asked: Vec<&Up> =
        asked.into_iter().filter(|up| up.start_s >= from_s || split.tells_before(record, up.host)).collect();
    let length_s = |up: &Up| up.end_s - up.start_s.max(from_s);
    let total_s: f64 = asked.iter().map(|up| length_s(up)).sum();
    let step_s = total_s / QUESTIONS as f64;
    let (mut passed_s, mut next_s, mut questions) = (0.0, step_s / 2.0, Vec::new());
    for up in asked {
        while next_s < passed_s + length_s(up) {
            let at_s = up.start_s.max(from_s) + next_s - passed_s;
            let outcome = Outcome { stayed_s: up.end_s - at_s, left: up.is_end_seen };
            questions.push(Question { at_s, host: up.host, age_s: at_s - up.start_s, outcome });
            next_s += step_s;
        }
        passed_s += length_s(up);
    }
    questions.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    questions
}

/// FNV-1a: which half a host belongs to must not hang on the order of the file.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
