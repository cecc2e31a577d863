//! What sets one peer apart: how much sooner or later than the fleet it leaves, overall, by age, by time of day.
//!
//! Sufficient statistics alone: departures and what the fleet's hazard expected, so that counting a session in parts
//! comes to the same as counting it at its end (as long as the fleet's factors stay as they are).

use serde::{Deserialize, Serialize};

use super::super::Surroundings;
use super::FrailtyParameters;
use super::bins::{Start, Stretch};
use super::causes::CauseCounts;
use super::fleet::Fleet;
use super::tally::Tally;

/// A scheduled departure happens within this of its time, in seconds.
pub(super) const SCHEDULED_S: f64 = 60.0;

/// Age bins at which the bands end in which a peer has factors of its own: minutes, an hour, some hours.
const BAND_ENDS: [usize; 3] = [5, 9, 13];
const BANDS: usize = BAND_ENDS.len() + 1;

/// Parts of a day in which a peer has factors of its own.
const PARTS: usize = 6;
const HOURS_OF_PART: usize = 24 / PARTS;

/// All that is known of one peer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Peer {
    overall: Tally,
    bands: [Tally; BANDS],
    parts: [Tally; PARTS],
    pub(super) causes: CauseCounts,
    pub(super) live: Option<Live>,
}

/// A session that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Live {
    /// Up to when it has been counted.
    pub(super) at_s: f64,
    /// How old it was then.
    pub(super) age_s: f64,
    /// False where the age is a guess: it then says nothing about ages.
    pub(super) is_age_known: bool,
    pub(super) surroundings: Surroundings,
    /// Departures a second that it was last expected at, as its site counts them.
    pub(super) rate_per_s: f64,
}

impl Live {
    /// Whether it was to end about `at_s`.
    pub(super) fn is_scheduled(&self, at_s: f64) -> bool {
        self.surroundings.scheduled_end_s.is_some_and(|end_s| (at_s - end_s).abs() <= SCHEDULED_S)
    }

    pub(super) fn start(&self) -> Start {
        Start::new(self.age_s, self.at_s, self.surroundings.week_offset_s)
    }

    /// Seconds from what was counted last until `now_s`: none where the clock went back.
    pub(super) fn uncounted_s(&self, now_s: f64) -> f64 {
        (now_s - self.at_s).max(0.0)
    }
}

fn band(age_bin: usize) -> usize {
    BAND_ENDS.partition_point(|&end| end <= age_bin)
}

fn part(slot: usize) -> usize {
    slot % 24 / HOURS_OF_PART
}

impl Peer {
    /// Counts the time of a stretch, in which the fleet's hazard is `rate`.
    pub(super) fn expect(&mut self, at_s: f64, stretch: &Stretch, rate: f64, parameters: &FrailtyParameters) {
        for tally in self.tallies(stretch) {
            tally.expect(at_s, stretch.length_s, rate, parameters.peer_fading());
        }
    }

    /// Counts a departure at `at_s`, the end of `stretch`.
    pub(super) fn depart(&mut self, at_s: f64, stretch: &Stretch, parameters: &FrailtyParameters) {
        for tally in self.tallies(stretch) {
            tally.depart(at_s, parameters.peer_fading());
        }
    }

    fn tallies(&mut self, stretch: &Stretch) -> impl Iterator<Item = &mut Tally> {
        let part = stretch.slot.and_then(|slot| self.parts.get_mut(part(slot)));
        let band = self.bands.get_mut(band(stretch.age_bin));
        [Some(&mut self.overall), band, part].into_iter().flatten()
    }

    /// The mean of its overall factor as of what was counted last.
    pub(super) fn theta(&self, parameters: &FrailtyParameters) -> f64 {
        self.overall.factor(parameters.peer_strength)
    }

    /// The same with its live session counted until `now_s`.
    pub(super) fn counted(&self, now_s: f64, fleet: &Fleet, parameters: &FrailtyParameters) -> Self {
        let mut counted = *self;
        let Some(live) = self.live else { return counted };
        let signs = fleet.of_signs(live.surroundings.signs);
        live.start().walk(live.uncounted_s(now_s), |stretch| {
            counted.expect(live.at_s + stretch.from_s, &stretch, fleet.rate(&stretch, signs), parameters);
        });
        counted
    }

    /// Its factors at `now_s`, up to which its live session must have been counted.
    pub(super) fn factors(&self, now_s: f64, parameters: &FrailtyParameters) -> PeerFactors {
        let faded = |tally: &Tally| {
            let mut tally = *tally;
            tally.fade(now_s, parameters.peer_fading());
            tally
        };
        let overall = faded(&self.overall);
        let departures = parameters.peer_strength + overall.departures;
        let expected = parameters.peer_strength + overall.expected;
        let theta = departures / expected;
        let beside = |tally: &Tally, strength: f64| {
            let tally = faded(tally);
            (strength + tally.departures) / (strength + theta * tally.expected)
        };
        PeerFactors {
            departures,
            expected,
            bands: self.bands.map(|tally| beside(&tally, parameters.peer_band_strength)),
            parts: self.parts.map(|tally| beside(&tally, parameters.peer_hours_strength)),
        }
    }
}

/// How a peer differs from the fleet at one time.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerFactors {
    /// Of the overall factor, a gamma variable: its shape,
    pub(super) departures: f64,
    /// and its rate.
    pub(super) expected: f64,
    bands: [f64; BANDS],
    parts: [f64; PARTS],
}

impl PeerFactors {
    /// The mean of the overall factor.
    pub(super) fn theta(&self) -> f64 {
        self.departures / self.expected
    }

    /// The factors beside the overall one.
    pub(super) fn beside(&self, stretch: &Stretch) -> f64 {
        let part = stretch.slot.and_then(|slot| self.parts.get(part(slot))).copied().unwrap_or(1.0);
        self.bands.get(band(stretch.age_bin)).copied().unwrap_or(1.0) * part
    }
}
