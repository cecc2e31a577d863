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
    pub(super) fn gathered(self, length_s: f64) -> f64 {
        if self.per_s > 0.0 { -(-self.per_s * length_s).exp_m1() / self.per_s } else { length_s }
    }
}

/// Departures that were seen, and those that were expected meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) departures: f64,
    pub(super) expected: f64,
}

impl Counts {
    /// As many departures as expected ones.
    pub(super) fn even(strength: f64) -> Self {
        Self { departures: strength, expected: strength }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.departures += other.departures;
        self.expected += other.expected;
    }

    pub(super) fn fade(&mut self, left: f64) {
        self.departures *= left;
        self.expected *= left;
    }

    /// How much more often than expected it happened, drawn towards 1 as by `strength` departures of which as many
    /// were expected.
    pub(super) fn factor(&self, strength: f64) -> f64 {
        self.factor_beside(1.0, strength)
    }

    /// The same beside another factor, which the expectation did not know of.
    pub(super) fn factor_beside(&self, other: f64, strength: f64) -> f64 {
        (strength + self.departures) / (strength + other * self.expected)
    }
}

/// Counts as of the last time that something was counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// None before anything was counted.
    as_of_s: Option<f64>,
}

impl Tally {
    /// Lets time pass until `at_s`; an earlier time than the last leaves all as it is.
    pub(super) fn fade(&mut self, at_s: f64, fading: Fading) {
        let as_of_s = self.as_of_s.unwrap_or(at_s);
        self.counts.fade(fading.left((at_s - as_of_s).max(0.0)));
        self.as_of_s = Some(as_of_s.max(at_s));
    }

    /// Counts `rate_per_s` expected departures a second over `length_s` seconds from `at_s` on.
    pub(super) fn expect(&mut self, at_s: f64, length_s: f64, rate_per_s: f64, fading: Fading) {
        self.fade(at_s, fading);
        self.fade(at_s + length_s, fading);
        self.counts.expected += rate_per_s * fading.gathered(length_s);
    }

    /// Counts a departure.
    pub(super) fn depart(&mut self, at_s: f64, fading: Fading) {
        self.fade(at_s, fading);
        self.counts.departures += 1.0;
    }
}
