//! What sets one peer apart: how much sooner or later than the fleet it leaves, overall, by age, by time of day.
//!
//! Sufficient statistics alone: departures and what the fleet's hazard expected, so that counting a session in parts
//! comes to the same as counting it at its end (as long as the fleet's factors stay as they are).

use serde::{Deserialize, Serialize};

use super::super::Surroundings;
use super::FrailtyParameters;
use super::bins::{Start, Stretch};
use super::causes::CauseCounts;
use super::fleet::FleetHazard;
use super::tally::{Counts, Fading};

/// A scheduled departure happens within this of its time, in seconds.
pub(super) const SCHEDULED_S: f64 = 60.0;

/// Age bins at which the bands end in which a peer has factors of its own: minutes, an hour, some hours.
const BAND_ENDS: [usize; 3] = [5, 9, 13];
const BANDS: usize = BAND_ENDS.len() + 1;

/// Parts of a day in which a peer has factors of its own, and in each hour beside them.
const PARTS: usize = 6;
const HOURS: usize = 24;

/// All that is known of one peer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Peer {
    habits: Habits,
    /// As of when the habits have faded; none before anything was counted.
    as_of_s: Option<f64>,
    pub(super) causes: CauseCounts,
    pub(super) live: Option<Live>,
}

/// When it leaves more often than the fleet's hazard says: overall, by band of ages, by part of the day and by hour.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Habits {
    overall: Counts,
    bands: [Counts; BANDS],
    parts: [Counts; PARTS],
    hours: [Counts; HOURS],
}

impl Habits {
    fn fade(&mut self, left: f64) {
        let beside = self.bands.iter_mut().chain(&mut self.parts).chain(&mut self.hours);
        beside.chain([&mut self.overall]).for_each(|counts| counts.fade(left));
    }

    /// The counts that a stretch belongs to.
    fn of(&mut self, stretch: &Stretch) -> [&mut Counts; 4] {
        let hour = hour(stretch);
        [
            &mut self.overall,
            &mut self.bands[band(stretch)],
            &mut self.parts[hour * PARTS / HOURS],
            &mut self.hours[hour],
        ]
    }
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

fn band(stretch: &Stretch) -> usize {
    BAND_ENDS.partition_point(|&end| end <= stretch.age_bin)
}

fn hour(stretch: &Stretch) -> usize {
    stretch.slot % HOURS
}

impl Peer {
    fn fade(&mut self, at_s: f64, fading: Fading) {
        let as_of_s = self.as_of_s.unwrap_or(at_s);
        self.habits.fade(fading.left((at_s - as_of_s).max(0.0)));
        self.as_of_s = Some(as_of_s.max(at_s));
    }

    /// Counts the time of a stretch, in which the fleet's unscaled hazard is `rate`. Exact: counting it in parts comes to the
    /// same.
    pub(super) fn expect(&mut self, at_s: f64, stretch: &Stretch, rate: f64, parameters: &FrailtyParameters) {
        let fading = parameters.peer_fading();
        self.fade(at_s + stretch.length_s, fading);
        for counts in self.habits.of(stretch) {
            counts.expected += rate * fading.gathered(stretch.length_s);
        }
    }

    /// Counts a departure at `at_s`, the end of `stretch`.
    pub(super) fn depart(&mut self, at_s: f64, stretch: &Stretch, parameters: &FrailtyParameters) {
        self.fade(at_s, parameters.peer_fading());
        for counts in self.habits.of(stretch) {
            counts.departures += 1.0;
        }
    }

    /// The mean of its overall factor as of what was counted last.
    pub(super) fn theta(&self, scale: f64, parameters: &FrailtyParameters) -> f64 {
        self.habits.overall.factor_beside(scale, parameters.peer_strength)
    }

    /// All that was counted, as of the last time.
    pub(super) fn overall(&self) -> Counts {
        self.habits.overall
    }

    /// The same with its live session counted until `now_s`.
    pub(super) fn counted(&self, now_s: f64, fleet: &FleetHazard, parameters: &FrailtyParameters) -> Self {
        let mut counted = *self;
        let Some(live) = self.live else { return counted };
        let signs = fleet.of_signs(live.surroundings.signs);
        live.start().walk(live.uncounted_s(now_s), |stretch| {
            counted.expect(live.at_s + stretch.from_s, &stretch, fleet.unscaled_rate(&stretch, signs), parameters);
        });
        counted
    }

    /// Its factors at `now_s`, up to which its live session must have been counted, in a fleet of this scale.
    pub(super) fn factors(&self, now_s: f64, scale: f64, parameters: &FrailtyParameters) -> PeerFactors {
        let mut faded = *self;
        faded.fade(now_s, parameters.peer_fading());
        let Habits { overall, bands, parts, hours } = faded.habits;
        let all = scale * overall.factor_beside(scale, parameters.peer_strength);
        let parts = parts.map(|counts| counts.factor_beside(all, parameters.peer_hours_strength));
        let mut by_hour = [0.0; HOURS];
        for (hour, (factor, counts)) in by_hour.iter_mut().zip(hours).enumerate() {
            let part = parts[hour * PARTS / HOURS];
            *factor = part * counts.factor_beside(all * part, parameters.peer_hours_strength);
        }
        PeerFactors {
            departures: parameters.peer_strength + overall.departures,
            expected: parameters.peer_strength + scale * overall.expected,
            bands: bands.map(|counts| counts.factor_beside(all, parameters.peer_band_strength)),
            hours: by_hour,
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
    hours: [f64; HOURS],
}

impl PeerFactors {
    /// The mean of the overall factor.
    pub(super) fn theta(&self) -> f64 {
        self.departures / self.expected
    }

    /// The factors beside the overall one.
    pub(super) fn beside(&self, stretch: &Stretch) -> f64 {
        self.bands[band(stretch)] * self.hours[hour(stretch)]
    }
}
