//! What is believed of machines in general, for a peer that has little history and no fleet to learn from.
//!
//! Counts, as another fleet's would be ([`FleetHazard::add`]): they weigh as much as the departures that they stand for,
//! give way to what is seen, and fade. Set by hand and not fitted, for no public record of idle desktops may be
//! redistributed with this program (`docs/hazards.md`, "The population").

use super::FrailtyParameters;
use super::bins::{AGE_BINS, AGE_EDGES_S};
use super::fleet::FleetHazard;

/// An owner is away for some minutes before a session begins: the hazard of a session is that of an absence which is so
/// many seconds older.
const AWAY_BEFORE_S: f64 = 300.0;

/// Departures that each age bin's hazard stands for.
const AGE_DEPARTURES: f64 = 10.0;

/// Departures that each hour's factor stands for.
const HOUR_DEPARTURES: f64 = 10.0;

/// How much sooner than on average an owner comes back, by local hour of day: hardly at night, most in the hours of work
/// and of the evening.
const HOURS: [f64; 24] = [
    0.6, 0.4, 0.3, 0.25, 0.25, 0.35, 0.6, 0.9, 1.2, 1.3, 1.3, 1.25, 1.25, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3, 1.25, 1.2,
    1.15, 1.0, 0.8,
];

impl FleetHazard {
    /// Machines that somebody uses, as far as is believed of them in general.
    pub fn population(parameters: &FrailtyParameters) -> Self {
        let mut fleet = Self::default();
        for bin in 0..AGE_BINS {
            fleet.believe_age(bin, AGE_DEPARTURES, AGE_DEPARTURES / rate(bin));
        }
        for (hour, factor) in HOURS.into_iter().enumerate() {
            fleet.believe_hour(hour, HOUR_DEPARTURES, HOUR_DEPARTURES / factor);
        }
        fleet.release(&parameters.usable());
        fleet
    }
}

/// Departures a second in an age bin: one an hour after half an hour of absence, falling as its root, averaged over the
/// bin.
fn rate(bin: usize) -> f64 {
    let from_s = AWAY_BEFORE_S + if bin == 0 { 0.0 } else { AGE_EDGES_S[bin - 1] };
    // The last bin has no end: as if it were once as long again as its beginning.
    let to_s = AGE_EDGES_S.get(bin).map_or(2.0 * from_s, |end_s| AWAY_BEFORE_S + end_s);
    let cumulative = |age_s: f64| 2.0 * (1800.0 * age_s).sqrt() / 3600.0;
    (cumulative(to_s) - cumulative(from_s)) / (to_s - from_s)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Estimator, Frailty, Surroundings, Survival};
    use super::*;

    fn stays(local_hour: f64, age_s: f64, t_s: f64) -> f64 {
        let parameters = FrailtyParameters::default();
        let mut model: Frailty<u8> = Frailty::with_fleet(parameters, FleetHazard::population(&parameters));
        let now_s = local_hour * 3600.0;
        let surroundings = Surroundings { week_offset_s: Some(0.0), ..Surroundings::default() };
        model.begin(now_s - age_s, &1, Some(0.0), surroundings);
        model.curve(now_s, &1, age_s).conditional(0.0, t_s)
    }

    #[test]
    fn a_peer_without_history_claims_no_certainty() {
        let soon = stays(14.0, 0.0, 120.0);
        assert!((0.85..0.97).contains(&soon), "{soon}");
        let late = stays(14.0, 0.0, 4.0 * 3600.0);
        assert!((0.03..0.3).contains(&late), "{late}");
    }

    #[test]
    fn who_has_been_away_for_long_stays_away_and_nights_are_calm() {
        assert!(stays(14.0, 3600.0, 600.0) > stays(14.0, 0.0, 600.0) + 0.05);
        assert!(stays(2.0, 600.0, 3600.0) > stays(14.0, 600.0, 3600.0) + 0.1);
    }
}
