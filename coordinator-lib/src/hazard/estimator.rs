//! What all estimators have in common: sessions go in as they happen, curves come out.

use core::fmt::Debug;

use idlewild_protocol::{DepartureCause, QuantisedSurvival};
use serde::{Deserialize, Serialize};

use super::{Hazard, Survival};

/// Learns from the sessions of peers, told as they happen, how long a live one will last.
///
/// All times are seconds of one clock of the caller's. One that stands still or jumps back counts as standing still; a
/// time that is not finite is as if nothing had been said. Nobody has to be introduced: an unknown peer is a new one.
pub trait Estimator<K>: Debug {
    /// A session of `peer` begins, or is seen for the first time. One that was live is forgotten: nobody saw it end.
    ///
    /// `age_s` is how long it has lasted already: 0 where its beginning was seen, none where nobody can tell. What a
    /// session did before it was seen counts for nothing (it is left-truncated).
    fn begin(&mut self, at_s: f64, peer: &K, age_s: Option<f64>, surroundings: Surroundings);

    /// The live session of `peer` goes on, in these surroundings from now on. Nothing where none is live.
    fn go_on(&mut self, at_s: f64, peer: &K, surroundings: Surroundings);

    /// The live session of `peer` ends. Nothing where none is live.
    fn end(&mut self, at_s: f64, peer: &K, ending: Ending);

    /// Forgets all that is known of one peer alone.
    fn forget(&mut self, peer: &K);

    /// Fits anew what is not fitted as sessions happen, and what that is stays as it is between two calls. Costs a pass
    /// over the history in estimators that keep one, and over the peers in the others.
    fn refit(&mut self, now_s: f64);

    /// The survival of a session of `peer` that is `age_s` seconds old at `now_s`. An age that is no age is 0.
    fn predict(&self, now_s: f64, peer: &K, age_s: f64) -> Prediction<'_>;
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The peer left.
    Departed(DepartureCause),
    /// We ended it, or lost sight of it: it would have lasted longer (right-censored).
    Censored,
}

/// What is known about a peer's circumstances while its session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// Seconds to add to the clock to get seconds since a Monday, 00:00, by the peer's local time; none if unknown.
    pub week_offset_s: Option<f64>,
    /// Which household, circuit or room it is in: peers of a site may leave together. None if unknown.
    pub site: Option<u64>,
    /// What the machine sees.
    pub signs: Signs,
    /// When the session is scheduled to end (a sleep timer, the end of a time window), by the clock; none if it is not.
    pub scheduled_end_s: Option<f64>,
}

impl Surroundings {
    /// The same without times that are none.
    pub(super) fn usable(self) -> Self {
        let finite = |time_s: Option<f64>| time_s.filter(|time_s| time_s.is_finite());
        let (week_offset_s, scheduled_end_s) = (finite(self.week_offset_s), finite(self.scheduled_end_s));
        Self { week_offset_s, scheduled_end_s, ..self }
    }
}

/// Something a machine can see that bears on how soon it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It runs on battery.
    OnBattery,
    /// Its screen is locked.
    Locked,
    /// Its display is off.
    DisplayOff,
    /// A full-screen program or a meeting is there, though nobody touches it.
    Occupied,
    /// Its network is wireless.
    Wireless,
    /// Its network is metered.
    Metered,
}

impl Sign {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 6] =
        [Self::OnBattery, Self::Locked, Self::DisplayOff, Self::Occupied, Self::Wireless, Self::Metered];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of [`Sign`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Signs(u8);

impl Signs {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// The same and `sign`.
    #[must_use]
    pub const fn with(self, sign: Sign) -> Self {
        Self(self.0 | sign.bit())
    }

    /// Whether `sign` is among them.
    pub const fn has(self, sign: Sign) -> bool {
        self.0 & sign.bit() != 0
    }
}

/// A curve, and where on it the live session stands.
#[derive(Debug)]
pub struct Prediction<'a> {
    /// Its argument is an age of the session, or the time since the prediction: see [`Self::age_s`].
    pub curve: Box<dyn Survival + 'a>,
    /// Where on the curve the session stands at the time of the prediction.
    pub age_s: f64,
}

impl Prediction<'_> {
    /// The same as costs take it.
    pub fn hazard(&self) -> Hazard<'_> {
        Hazard { curve: &*self.curve, age_s: self.age_s }
    }

    /// The same as a digest carries it: at each horizon within the error that [`QuantisedSurvival`] states.
    pub fn quantise(&self) -> QuantisedSurvival {
        QuantisedSurvival::of(|t_s| self.curve.conditional(self.age_s, t_s))
    }
}

/// The oldest that a session gets, in seconds: three centuries. Hazards are not summed beyond.
const OLDEST_S: f64 = 1e10;

/// An age to reckon with: 0 for what is none.
pub(super) fn usable_age_s(age_s: f64) -> f64 {
    if age_s.is_nan() { 0.0 } else { age_s.clamp(0.0, OLDEST_S) }
}

/// The age of a session that begins: none where it was not told, or is no age.
pub(super) fn known_age_s(age_s: Option<f64>) -> Option<f64> {
    age_s.filter(|age_s| age_s.is_finite()).map(usable_age_s)
}
