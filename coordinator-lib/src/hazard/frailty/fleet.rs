//! What all peers have in common: the hazard of each age, the factor of each hour and of each sign.
//!
//! ```text
//! rate = eta0[age bin] * gamma[hour of day] * gamma[hour of week] * product of exp(beta) of the signs
//! ```
//!
//! Each is departures over expected ones, the expectation made with all other factors at their present values (peers'
//! included), so that one pass over the sessions is an incremental EM and several are an EM.

use serde::{Deserialize, Serialize};

use super::super::{Sign, Signs};
use super::FrailtyParameters;
use super::bins::{AGE_BINS, AGE_EDGES_S, SLOTS, Stretch};
use super::causes::CauseCounts;
use super::tally::{Counts, Fading, Tally};

const HOURS: usize = 24;

/// Steps of Newton's method, each of which starts where the last fit ended.
const SCALE_STEPS: usize = 4;

/// Peers' worth of a scale of 1, and what it may be: a fleet is neither a thousand times as quick nor as slow.
const SCALE_STRENGTH: f64 = 2.0;
const SCALES: [f64; 2] = [1e-3, 1e3];

/// What is expected of a fleet of which nothing is known: the longer a session has lasted, the longer it will; at
/// half an hour of age one departure an hour, as the square root falls.
fn prior_rate(bin: usize) -> f64 {
    let from_s = if bin == 0 { 5.0 } else { AGE_EDGES_S[bin - 1] };
    (1.0 / 3600.0) * (1800.0 / from_s).sqrt()
}

/// What is known of all peers together: factors, and the counts that they are made of.
///
/// Counts, and not sessions: this may leave the machine where sessions must not ([`Self::add`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetHazard {
    /// By age bin: departures, and seconds of exposure weighted with all factors but eta0.
    ages: Vec<Tally>,
    hours: Vec<Tally>,
    slots: Vec<Tally>,
    signs: Vec<Tally>,
    pub(super) causes: CauseCounts,
    factors: Factors,
    /// What all hazards are multiplied by, so that peers' overall factors are 1 on average.
    scale: f64,
    /// Whether factors stay as they are while counts go on ([`Self::hold`]).
    is_held: bool,
}

/// The values in use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Factors {
    /// Departures a second by age bin.
    ages: Vec<f64>,
    hours: Vec<f64>,
    slots: Vec<f64>,
    signs: Vec<f64>,
}

impl Default for FleetHazard {
    fn default() -> Self {
        let factors = Factors {
            ages: (0..AGE_BINS).map(prior_rate).collect(),
            hours: vec![1.0; HOURS],
            slots: vec![1.0; SLOTS],
            signs: vec![1.0; Sign::ALL.len()],
        };
        Self {
            ages: vec![Tally::default(); AGE_BINS],
            hours: vec![Tally::default(); HOURS],
            slots: vec![Tally::default(); SLOTS],
            signs: vec![Tally::default(); Sign::ALL.len()],
            causes: CauseCounts::default(),
            factors,
            scale: 1.0,
            is_held: false,
        }
    }
}

fn at(values: &[f64], index: usize) -> f64 {
    values.get(index).copied().unwrap_or(1.0)
}

impl FleetHazard {
    /// Departures a second of a peer that is like the fleet.
    pub(super) fn rate(&self, stretch: &Stretch, signs: f64) -> f64 {
        self.unscaled_rate(stretch, signs) * self.scale
    }

    /// The same but for the scale: what peers' expectations are counted in, so that the scale may change.
    pub(super) fn unscaled_rate(&self, stretch: &Stretch, signs: f64) -> f64 {
        let Factors { ages, hours, slots, .. } = &self.factors;
        let slot = stretch.local_slot().map_or(1.0, |slot| at(slots, slot) * at(hours, slot % HOURS));
        at(ages, stretch.age_bin) * slot * signs
    }

    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// Sets the scale to where it is likeliest given the peers' overall counts: where their factors are 1 on average,
    /// each peer counting once.
    pub(super) fn rescale(&mut self, peers: &[Counts], parameters: &FrailtyParameters) {
        for _ in 0..SCALE_STEPS {
            // Newton's method for the sum of (factor - 1) over the logarithm of the scale, with a prior about 1.
            let (mut over, mut slope) = (-SCALE_STRENGTH * self.scale.ln(), SCALE_STRENGTH);
            for counts in peers {
                let factor = counts.factor_beside(self.scale, parameters.peer_strength);
                let expected = self.scale * counts.expected;
                over += factor - 1.0;
                slope += factor * expected / (parameters.peer_strength + expected);
            }
            self.scale *= (over / slope).clamp(-1.0, 1.0).exp();
        }
        self.scale = self.scale.clamp(SCALES[0], SCALES[1]);
    }

    /// The product of the factors of `signs`.
    pub(super) fn of_signs(&self, signs: Signs) -> f64 {
        Sign::ALL
            .into_iter()
            .filter(|&sign| signs.has(sign))
            .map(|sign| at(&self.factors.signs, sign as usize))
            .product()
    }

    /// Counts a stretch of one peer, which was expected to depart `expected` times in it, and whether it did at its end.
    pub(super) fn learn(&mut self, seen: &Seen, parameters: &FrailtyParameters) {
        let signs = Sign::ALL.into_iter().filter(|&sign| seen.signs.has(sign)).map(|sign| (Kind::Sign, sign as usize));
        let slot = seen.stretch.local_slot();
        let slots = slot.into_iter().flat_map(|slot| [(Kind::Hour, slot % HOURS), (Kind::Slot, slot)]);
        let age = seen.is_age_known.then_some((Kind::Age, seen.stretch.age_bin));
        for (kind, index) in age.into_iter().chain(slots).chain(signs) {
            self.count(kind, index, seen, parameters.fleet_fading());
            if !self.is_held {
                self.fit(kind, index, parameters);
            }
        }
    }

    /// Counts what was seen for one factor, the factor's own value taken out of the expectation.
    fn count(&mut self, kind: Kind, index: usize, seen: &Seen, fading: Fading) {
        let (tallies, factors) = self.of(kind);
        let (Some(tally), Some(factor)) = (tallies.get_mut(index), factors.get(index)) else { return };
        tally.fade(seen.until_s, fading);
        tally.counts.expected += seen.expected / factor;
        tally.counts.departures += f64::from(u8::from(seen.departed));
    }

    /// Sets one factor to what its counts say.
    fn fit(&mut self, kind: Kind, index: usize, parameters: &FrailtyParameters) {
        let prior = kind.prior(index, parameters);
        let (tallies, factors) = self.of(kind);
        let (Some(tally), Some(factor)) = (tallies.get(index), factors.get_mut(index)) else { return };
        *factor = (prior.departures + tally.counts.departures) / (prior.expected + tally.counts.expected);
    }

    fn of(&mut self, kind: Kind) -> (&mut [Tally], &mut [f64]) {
        match kind {
            Kind::Age => (&mut self.ages, &mut self.factors.ages),
            Kind::Hour => (&mut self.hours, &mut self.factors.hours),
            Kind::Slot => (&mut self.slots, &mut self.factors.slots),
            Kind::Sign => (&mut self.signs, &mut self.factors.signs),
        }
    }

    /// Forgets the counts and keeps the factors as they are until [`Self::release`]: a round of EM begins.
    pub(super) fn hold(&mut self) {
        let (factors, scale) = (core::mem::take(&mut self.factors), self.scale);
        *self = Self { factors, scale, is_held: true, ..Self::default() };
    }

    /// Sets all factors to what their counts say.
    pub(super) fn release(&mut self, parameters: &FrailtyParameters) {
        self.is_held = false;
        for kind in Kind::ALL {
            (0..self.of(kind).0.len()).for_each(|index| self.fit(kind, index, parameters));
        }
    }

    /// Counts for the hazard of an age bin what nobody saw: so many departures in so many seconds.
    pub(super) fn believe_age(&mut self, bin: usize, departures: f64, exposure_s: f64) {
        self.ages[bin].counts.add(Counts { departures, expected: exposure_s });
    }

    /// The same for an hour of the day: so many departures where so many would be expected.
    pub(super) fn believe_hour(&mut self, hour: usize, departures: f64, expected: f64) {
        self.hours[hour].counts.add(Counts { departures, expected });
    }

    /// Adds what another fleet counted, such as that of another machine, whatever its clock.
    pub fn add(&mut self, other: &Self, parameters: &FrailtyParameters) {
        let mut other = other.clone();
        for kind in Kind::ALL {
            let theirs = other.of(kind).0;
            self.of(kind).0.iter_mut().zip(theirs).for_each(|(tally, more)| tally.counts.add(more.counts));
        }
        self.causes.add(&other.causes);
        self.release(&parameters.usable());
    }
}

/// What a factor is of.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Age,
    Hour,
    Slot,
    Sign,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Age, Self::Hour, Self::Slot, Self::Sign];

    /// What counts are added to before they are believed.
    fn prior(self, index: usize, parameters: &FrailtyParameters) -> Counts {
        let strength = parameters.age_strength;
        match self {
            Self::Age => Counts { departures: strength, expected: strength / prior_rate(index) },
            Self::Hour | Self::Slot => Counts::even(parameters.slot_strength),
            Self::Sign => Counts::even(parameters.sign_strength),
        }
    }
}

/// A stretch of one session, as the fleet learns from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) stretch: Stretch,
    /// When it ended.
    pub(super) until_s: f64,
    /// Departures that were expected in it, all factors included.
    pub(super) expected: f64,
    pub(super) departed: bool,
    pub(super) is_age_known: bool,
    pub(super) signs: Signs,
}
