//! Departures against expected ones, both fading: what every factor of the model is made of.

use serde::{Deserialize, Serialize};

/// How fast what was seen counts less: half as much every `half_life_s` seconds; never, where that is infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fading {
    per_s: f64,
}

impl Fading {
    pub(super) fn half_life(half_life_s: f64) -> Self {
        let is_usable = half_life_s.is_finite() && half_life_s > 0.0;
        Self { per_s: if is_usable { core::f64::consts::LN_2 / half_life_s } else { 0.0 } }
    }

    /// What is left of a count after `length_s` seconds.
    pub(super) fn left(self, length_s: f64) -> f64 {
        (-self.per_s * length_s).exp()
    }

    /// What `length_s` seconds of one a second have come to at their end.
    fn gathered(self, length_s: f64) -> f64 {
        if self.per_s > 0.0 { -(-self.per_s * length_s).exp_m1() / self.per_s } else { length_s }
    }
}

/// Departures that were seen, and those that were expected meanwhile, as of the last time that something was counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) departures: f64,
    pub(super) expected: f64,
    /// None before anything was counted.
    as_of_s: Option<f64>,
}

impl Tally {
    /// Lets time pass until `at_s`; an earlier time than the last leaves all as it is.
    pub(super) fn fade(&mut self, at_s: f64, fading: Fading) {
        let length_s = self.as_of_s.map_or(0.0, |as_of_s| (at_s - as_of_s).max(0.0));
        let left = fading.left(length_s);
        self.departures *= left;
        self.expected *= left;
        self.as_of_s = Some(self.as_of_s.map_or(at_s, |as_of_s| as_of_s.max(at_s)));
    }

    /// Counts `rate_per_s` expected departures a second over `length_s` seconds from `at_s` on. Exact: counting a time
    /// in parts comes to the same.
    pub(super) fn expect(&mut self, at_s: f64, length_s: f64, rate_per_s: f64, fading: Fading) {
        self.fade(at_s, fading);
        self.fade(at_s + length_s, fading);
        self.expected += rate_per_s * fading.gathered(length_s);
    }

    /// Counts of no time: a prior.
    pub(super) fn with(departures: f64, expected: f64) -> Self {
        Self { departures, expected, as_of_s: None }
    }

    /// As many departures as expected ones.
    pub(super) fn even(strength: f64) -> Self {
        Self::with(strength, strength)
    }

    /// Counts a departure.
    pub(super) fn depart(&mut self, at_s: f64, fading: Fading) {
        self.fade(at_s, fading);
        self.departures += 1.0;
    }

    /// How much more often than expected it happened, drawn towards 1 as by `strength` departures of which as many
    /// were expected.
    pub(super) fn factor(&self, strength: f64) -> f64 {
        (strength + self.departures) / (strength + self.expected)
    }

    /// The counts of both together, at the later of their times.
    pub(super) fn add(&mut self, other: &Self, fading: Fading) {
        let Some(at_s) = other.as_of_s else { return };
        let mut other = *other;
        self.fade(at_s, fading);
        other.fade(self.as_of_s.unwrap_or(at_s), fading);
        self.departures += other.departures;
        self.expected += other.expected;
    }
}
