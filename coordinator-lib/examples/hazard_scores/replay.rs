//! The estimators that are compared, and the splits on which they are.

use idlewild_coordinator::hazard::record::{Record, Up};
use idlewild_coordinator::hazard::scores::{Forecast, Question, Split, Trial};
use idlewild_coordinator::hazard::{Estimator, FleetHazard, Frailty, FrailtyParameters, KaplanMeiers, Weibulls};

use crate::mixture::Mixture;

/// Which part of the time is learnt from before the first question.
const LEARNT: f64 = 0.7;

/// Departures from which a peer's Kaplan-Meier curve is its own.
const MIN_SESSIONS: usize = 5;

/// How hosts and time are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By time.
    Later,
    /// By time and by host.
    New,
    /// By time, each host knowing of itself alone.
    Alone,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Later, Self::New, Self::Alone];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Later => "later",
            Self::New => "new",
            Self::Alone => "alone",
        }
    }
}

/// The forecasts of one estimator, in the order of the questions.
#[derive(Debug)]
pub(crate) struct Scored {
    pub(crate) name: &'static str,
    pub(crate) forecasts: Vec<Forecast>,
}

type Make = fn() -> Box<dyn Estimator<usize>>;

/// Estimators that know a fleet; the first is the one that others are compared with.
const TOGETHER: [(&str, Make); 4] = [
    ("kaplan-meier pooled", || Box::new(KaplanMeiers::pooled())),
    ("kaplan-meier per peer", || Box::new(KaplanMeiers::per_peer(MIN_SESSIONS))),
    ("weibull", || Box::new(Weibulls::default())),
    ("frailty", || Box::new(Frailty::default())),
];

/// Estimators of one machine.
const APART: [(&str, Make); 3] = [
    ("mixture of 0.1", || Box::new(Mixture::default())),
    ("frailty, no population", || Box::new(Frailty::default())),
    ("frailty, population", || Box::new(of_population())),
];

fn of_population() -> Frailty<usize> {
    let parameters = FrailtyParameters::default();
    Frailty::with_fleet(parameters, FleetHazard::population(&parameters))
}

/// All estimators on the same questions.
pub(crate) fn all(record: &Record, way: Way) -> (Vec<Question>, Vec<Scored>) {
    let (first_s, last_s) = record.span_s().unwrap_or_default();
    let is_other = |up: &Up| !hash(&record.hosts[up.host]).is_multiple_of(2);
    let split = Split {
        border_s: first_s + LEARNT * (last_s - first_s),
        asks: &|_, up| way != Way::New || !is_other(up),
        tells_before: &|_, up| way != Way::New || is_other(up),
    };
    let trial = Trial::new(record, &split);
    let together = || TOGETHER.map(|(name, make)| Scored { name, forecasts: trial.forecasts(make().as_mut()) });
    let apart = || APART.map(|(name, make)| Scored { name, forecasts: trial.forecasts_alone(&make) });
    let scored = if way == Way::Alone { Vec::from(apart()) } else { Vec::from(together()) };
    (trial.questions().to_vec(), scored)
}

/// FNV-1a: which half a host belongs to must not hang on the order of the file.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
