//! Peers of one site leave together: a power cut, a lost Wi-Fi, a family that comes home.

use serde::{Deserialize, Serialize};

use super::FrailtyParameters;
use super::tally::{Counts, Tally};

/// What was seen lately of one site.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Site {
    recent: Tally,
    /// Departures a second that are expected of its live sessions, each as when it was last heard of.
    rate_per_s: f64,
    /// Sessions that are live.
    live: u32,
    /// Up to when expected departures have been counted.
    at_s: Option<f64>,
}

impl Site {
    fn advance(&mut self, now_s: f64, parameters: &FrailtyParameters) {
        let from_s = self.at_s.unwrap_or(now_s);
        self.recent.expect(from_s, (now_s - from_s).max(0.0), self.rate_per_s, parameters.site_fading());
        self.at_s = Some(from_s.max(now_s));
    }

    pub(super) fn join(&mut self, now_s: f64, rate_per_s: f64, parameters: &FrailtyParameters) {
        self.advance(now_s, parameters);
        self.live = self.live.saturating_add(1);
        self.rate_per_s += rate_per_s;
    }

    pub(super) fn leave(&mut self, now_s: f64, rate_per_s: f64, departed: bool, parameters: &FrailtyParameters) {
        self.advance(now_s, parameters);
        self.live = self.live.saturating_sub(1);
        // Sums of many rates round; of none there is none.
        self.rate_per_s = if self.live == 0 { 0.0 } else { (self.rate_per_s - rate_per_s).max(0.0) };
        if departed {
            self.recent.depart(now_s, parameters.site_fading());
        }
    }

    /// Whether it may be forgotten: nobody is there, and the last departure has faded.
    pub(super) fn is_quiet(&self, now_s: f64, parameters: &FrailtyParameters) -> bool {
        let factor = self.burst(now_s, parameters).factor(0.0, parameters);
        self.live == 0 && (factor - 1.0).abs() < 1e-3
    }

    /// Its burst at `now_s`.
    pub(super) fn burst(&self, now_s: f64, parameters: &FrailtyParameters) -> Burst {
        let mut site = *self;
        site.advance(now_s, parameters);
        Burst(site.recent.counts)
    }
}

/// How many more departures than expected a site has seen lately; fades while one looks ahead.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Burst(Counts);

impl Burst {
    /// The factor of the site's hazard `ahead_s` seconds after the burst was taken: 1 in the end.
    pub(super) fn factor(&self, ahead_s: f64, parameters: &FrailtyParameters) -> f64 {
        let mut counts = self.0;
        counts.fade(parameters.site_fading().left(ahead_s));
        counts.factor(parameters.site_strength)
    }
}
