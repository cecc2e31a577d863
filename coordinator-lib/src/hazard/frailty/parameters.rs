//! What of the model is set, not learnt.

use serde::{Deserialize, Serialize};

use super::tally::Fading;

/// A strength below this would let one departure in an instant mean an infinite hazard.
const LEAST_STRENGTH: f64 = 1e-3;

/// How strongly each factor is drawn towards 1, and how fast what was seen fades.
///
/// A strength is a number of departures: a factor of strength s believes its own counts as much as its prior once s
/// departures were expected. Values that are not positive numbers count as the least sensible ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FrailtyParameters {
    /// Strength of a peer's factor (alpha of `policy.md`): peers differ as gamma(alpha, alpha) variables do.
    pub peer_strength: f64,
    /// Strength of a peer's own factor for one band of ages, beside its overall one.
    pub peer_band_strength: f64,
    /// Strength of a peer's own factor for four hours of the day beside its overall one, and for one hour beside that.
    pub peer_hours_strength: f64,
    /// Seconds after which what was seen of a peer counts half.
    pub peer_half_life_s: f64,
    /// Strength of the fleet's factor of an hour of the day, and of an hour of the week beside it.
    pub slot_strength: f64,
    /// Strength of the fleet's factor of a [`super::super::Sign`].
    pub sign_strength: f64,
    /// Departures' worth of the prior hazard of an age bin.
    pub age_strength: f64,
    /// Seconds after which what was seen of the fleet counts half.
    pub fleet_half_life_s: f64,
    /// Strength of a site's burst factor (beta of `policy.md`).
    pub site_strength: f64,
    /// Seconds after which a departure of a site says half as much about its next.
    pub site_half_life_s: f64,
    /// Departures of the fleet that a peer's own causes are set against.
    pub cause_strength: f64,
    /// Age that a session has where nobody knows: none is met young, since the long ones take most of the time.
    pub unseen_age_s: f64,
    /// Seconds from now up to which the curve of a prediction is cut; beyond, its last hazard goes on.
    pub horizon_s: f64,
}

impl Default for FrailtyParameters {
    fn default() -> Self {
        Self {
            peer_strength: 2.0,
            peer_band_strength: 5.0,
            peer_hours_strength: 3.0,
            peer_half_life_s: 21.0 * 86_400.0,
            slot_strength: 10.0,
            sign_strength: 10.0,
            age_strength: 5.0,
            fleet_half_life_s: 120.0 * 86_400.0,
            site_strength: 1.0,
            site_half_life_s: 480.0,
            cause_strength: 5.0,
            unseen_age_s: 14_400.0,
            horizon_s: 86_400.0,
        }
    }
}

impl FrailtyParameters {
    /// The same with every strength large enough and every time a time.
    pub(super) fn usable(mut self) -> Self {
        let strengths = [
            &mut self.peer_strength,
            &mut self.peer_band_strength,
            &mut self.peer_hours_strength,
            &mut self.slot_strength,
            &mut self.sign_strength,
            &mut self.age_strength,
            &mut self.site_strength,
            &mut self.cause_strength,
        ];
        for strength in strengths {
            // The other order would keep what is not a number.
            *strength = LEAST_STRENGTH.max(*strength).min(f64::MAX.sqrt());
        }
        self.unseen_age_s = super::super::estimator::usable_age_s(self.unseen_age_s);
        self.horizon_s = 1.0_f64.max(self.horizon_s).min(super::bins::WEEK_S);
        self
    }

    pub(super) fn peer_fading(&self) -> Fading {
        Fading::half_life(self.peer_half_life_s)
    }

    pub(super) fn fleet_fading(&self) -> Fading {
        Fading::half_life(self.fleet_half_life_s)
    }

    pub(super) fn site_fading(&self) -> Fading {
        Fading::half_life(self.site_half_life_s)
    }
}
