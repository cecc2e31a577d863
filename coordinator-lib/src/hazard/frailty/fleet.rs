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
use super::tally::Tally;

const HOURS: usize = 24;

/// What is expected of a fleet of which nothing is known: the longer a session has lasted, the longer it will; at
/// half an hour of age one departure an hour, as the square root falls.
fn prior_rate(bin: usize) -> f64 {
    let from_s = if bin == 0 { 5.0 } else { AGE_EDGES_S[bin - 1] };
    (1.0 / 3600.0) * (1800.0 / from_s).sqrt()
}

/// The fleet's factors, and the counts that they are made of. Counts of two fleets can be added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fleet {
    /// By age bin: departures, and seconds of exposure weighted with all factors but eta0.
    ages: Vec<Tally>,
    hours: Vec<Tally>,
    slots: Vec<Tally>,
    signs: Vec<Tally>,
    factors: Factors,
}

/// The values in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Factors {
    /// Departures a second by age bin.
    ages: Vec<f64>,
    hours: Vec<f64>,
    slots: Vec<f64>,
    signs: Vec<f64>,
}

impl Default for Fleet {
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
            factors,
        }
    }
}

fn at(values: &[f64], index: usize) -> f64 {
    values.get(index).copied().unwrap_or(1.0)
}

impl Fleet {
    /// Departures a second of a peer that is like the fleet.
    pub(super) fn rate(&self, stretch: &Stretch, signs: f64) -> f64 {
        let slot = stretch.slot.map_or(1.0, |slot| at(&self.factors.slots, slot) * at(&self.factors.hours, slot % HOURS));
        at(&self.factors.ages, stretch.age_bin) * slot * signs
    }

    /// The product of the factors of `signs`.
    pub(super) fn of_signs(&self, signs: Signs) -> f64 {
        Sign::ALL.into_iter().filter(|&sign| signs.has(sign)).map(|sign| at(&self.factors.signs, sign as usize)).product()
    }

    /// Counts a stretch of one peer, which was expected to depart `expected` times in it, and whether it did at its end.
    pub(super) fn learn(&mut self, seen: &Seen, parameters: &FrailtyParameters) {
        let stretch = &seen.stretch;
        let age = stretch.age_bin;
        if seen.is_age_known {
            let strength = parameters.age_strength;
            let prior = Tally::with(strength, strength / prior_rate(age));
            update(&mut self.ages, &mut self.factors.ages, age, seen, parameters, prior);
        }
        if let Some(slot) = stretch.slot {
            let prior = Tally::even(parameters.slot_strength);
            update(&mut self.hours, &mut self.factors.hours, slot % HOURS, seen, parameters, prior);
            update(&mut self.slots, &mut self.factors.slots, slot, seen, parameters, prior);
        }
        for sign in Sign::ALL.into_iter().filter(|&sign| seen.signs.has(sign)) {
            let prior = Tally::even(parameters.sign_strength);
            update(&mut self.signs, &mut self.factors.signs, sign as usize, seen, parameters, prior);
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

/// Counts what was seen for one factor, its own value taken out of the expectation, and fits it anew.
fn update(
    tallies: &mut [Tally], factors: &mut [f64], index: usize, seen: &Seen, parameters: &FrailtyParameters, prior: Tally,
) {
    let (Some(tally), Some(factor)) = (tallies.get_mut(index), factors.get_mut(index)) else { return };
    let fading = parameters.fleet_fading();
    tally.fade(seen.until_s, fading);
    tally.expected += seen.expected / *factor;
    tally.departures += f64::from(u8::from(seen.departed));
    *factor = (prior.departures + tally.departures) / (prior.expected + tally.expected);
}
