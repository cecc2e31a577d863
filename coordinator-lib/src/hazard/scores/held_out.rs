//! Learning from one record and being asked about another, later in time.

use thiserror::Error;

use super::super::record::{Record, Up};
use super::trial::{Split, Trial};

/// Where the two records cover the same time: which part of the tested one comes before the first question.
const LEARNT: f64 = 0.7;

/// Which part of the time that hosts were there, in the record to learn from, must lie before the tested record for all
/// of that to count as later.
const MOST: f64 = 0.5;

/// There is nothing to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoTrial {
    /// One of the records holds no session.
    #[error("{0} holds no session")]
    Empty(Part),
    /// The tested record is over before the other begins.
    #[error("all sessions to test on end before those to learn from begin; are the two files exchanged?")]
    Earlier,
    /// Nobody was there after the border.
    #[error("no session to test on is there late enough: nothing can be asked")]
    NobodyThere,
}

/// One of the two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The one to learn from.
    Train,
    /// The one to be asked about.
    Test,
}

impl core::fmt::Display for Part {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Train => "the record to learn from",
            Self::Test => "the record to test on",
        })
    }
}

/// A trial on two records.
#[derive(Debug)]
pub struct HeldOut {
    /// What is told and asked.
    pub trial: Trial,
    /// When questions begin, by the records' clock.
    pub border_s: f64,
    /// Names of the hosts of both, by index.
    pub hosts: Vec<String>,
    /// Hosts of which questions may be asked and that are in both.
    pub hosts_in_both: usize,
    /// Sessions to learn from that begin before the border.
    pub sessions_learnt: usize,
    /// Sessions to test on that end after it.
    pub sessions_tested: usize,
}

/// Learns from `train` and asks about `test`, whose clocks must be the same.
///
/// Questions begin with `test` where most of `train` lies before it, and otherwise (other hosts at the same time, or the
/// same table twice) in the last 30 % of the time of `test`. Of `train` what comes before the border is told, of `test`
/// whatever has happened before a question, as a peer knows its own past. A session that is in both counts once.
///
/// # Errors
/// Where nothing can be asked.
pub fn held_out(train: &Record, test: &Record) -> Result<HeldOut, NoTrial> {
    let (first_s, _) = train.span_s().ok_or(NoTrial::Empty(Part::Train))?;
    let (tested_s, last_s) = test.span_s().ok_or(NoTrial::Empty(Part::Test))?;
    if last_s <= first_s {
        return Err(NoTrial::Earlier);
    }
    let border_s =
        if share_before(train, tested_s) >= MOST { tested_s } else { tested_s + LEARNT * (last_s - tested_s) };
    let (both, own) = merge(train, test);
    let asks = |index: usize, _: &Up| index >= own;
    let trial = Trial::new(&both, &Split { border_s, asks: &asks, tells_before: &|_, _| true });
    if trial.questions().is_empty() {
        return Err(NoTrial::NobodyThere);
    }
    let is_known = |name: &&String| train.hosts.contains(name);
    Ok(HeldOut {
        trial,
        border_s,
        hosts_in_both: test.hosts.iter().filter(is_known).count(),
        sessions_learnt: train.sessions.iter().filter(|up| up.start_s < border_s).count(),
        sessions_tested: test.sessions.iter().filter(|up| up.end_s > border_s).count(),
        hosts: both.hosts,
    })
}

/// Which part of the time that hosts were there lies before `at_s`.
fn share_before(record: &Record, at_s: f64) -> f64 {
    let (mut before_s, mut all_s) = (0.0, 0.0);
    for up in &record.sessions {
        all_s += up.end_s - up.start_s;
        before_s += (up.end_s.min(at_s) - up.start_s).max(0.0);
    }
    if all_s > 0.0 { before_s / all_s } else { 0.0 }
}

/// Both records as one, and how many of its sessions, which come first, are of `train` alone.
fn merge(train: &Record, test: &Record) -> (Record, usize) {
    let mut both = Record::default();
    let mut take = |record: &Record| -> Vec<Up> {
        let hosts: Vec<usize> = record.hosts.iter().map(|name| both.host(name)).collect();
        for (host, ahead) in hosts.iter().zip(&record.ahead_hours) {
            both.ahead_hours[*host] = ahead.or(both.ahead_hours[*host]);
        }
        record.sessions.iter().map(|up| Up { host: hosts[up.host], ..*up }).collect()
    };
    let (mut sessions, tested) = (take(train), take(test));
    let key = |up: &Up| (up.host, up.start_s.to_bits());
    let in_test: std::collections::BTreeSet<_> = tested.iter().map(key).collect();
    sessions.retain(|up| !in_test.contains(&key(up)));
    let own = sessions.len();
    sessions.extend(tested);
    both.sessions = sessions;
    (both, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rows: &str) -> Record {
        Record::parse(&format!("host,start_s,end_s\n{rows}")).unwrap()
    }

    #[test]
    fn a_test_that_is_later_is_asked_from_its_beginning() {
        let (train, test) = (record("a,0,100\na,110,210\nb,0,205\n"), record("a,220,300\nc,200,250\n"));
        let held_out = held_out(&train, &test).unwrap();
        assert_eq!(held_out.border_s, 200.0);
        assert_eq!((held_out.hosts_in_both, held_out.sessions_learnt, held_out.sessions_tested), (1, 3, 2));
        assert_eq!(held_out.hosts, ["a", "b", "c"]);
        assert!(held_out.trial.questions().iter().all(|question| [0, 2].contains(&question.host)));
    }

    #[test]
    fn records_of_the_same_time_are_asked_about_its_last_part() {
        let (train, test) = (record("a,0,1000\n"), record("b,0,500\nb,600,1000\n"));
        let held_out_of = |train: &Record, test: &Record| held_out(train, test).unwrap();
        assert_eq!(held_out_of(&train, &test).border_s, 700.0);
        let twice = held_out_of(&test, &test);
        assert_eq!((twice.border_s, twice.hosts_in_both, twice.sessions_tested), (700.0, 1, 1));
        assert!(twice.trial.questions().iter().all(|question| question.at_s >= 700.0));
    }

    #[test]
    fn what_cannot_be_tested_is_refused() {
        let some = record("a,100,200\n");
        let check = |train: &Record, test: &Record| held_out(train, test).unwrap_err();
        assert_eq!(check(&Record::default(), &some), NoTrial::Empty(Part::Train));
        assert_eq!(check(&some, &Record::default()), NoTrial::Empty(Part::Test));
        assert_eq!(check(&some, &record("b,0,50\n")), NoTrial::Earlier);
        assert_eq!(check(&some, &record("b,300,300\n")), NoTrial::NobodyThere);
    }

    #[test]
    fn time_zones_of_either_record_are_known() {
        let (mut train, mut test) = (record("a,0,1\nb,0,1\n"), record("b,5,6\na,5,6\n"));
        train.ahead_hours = vec![Some(1.0), Some(2.0)];
        test.ahead_hours = vec![Some(3.0), None];
        let (both, own) = merge(&train, &test);
        assert_eq!((both.ahead_hours, own), (vec![Some(1.0), Some(3.0)], 2));
        assert_eq!(both.sessions[2].host, 1);
    }
}
