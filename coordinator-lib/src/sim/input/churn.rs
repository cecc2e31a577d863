//! When drawn machines are there, and how machines leave.

use idlewild_protocol::DepartureCause;

use crate::sim::fleet::Habit;
use crate::sim::random::{Draws, Purpose};
use crate::sim::scenario::{Departure, Stay};

/// How departures come about, whoever leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeavingSpec {
    /// The part of departures that are announced.
    pub announced_share: f64,
    /// How long ahead, in seconds.
    pub notice_s: f64,
    /// The part in which the owner is back at once: computing stops, contexts stay for a moment.
    pub stops_share: f64,
    /// How long they stay, in seconds.
    pub grace_s: f64,
}

impl LeavingSpec {
    /// Everybody leaves without a word.
    pub const SILENT: Self = Self { announced_share: 0.0, notice_s: 0.0, stops_share: 0.0, grace_s: 0.0 };

    /// Sets how each of these stays ends. The same stays and `seed` give the same departures.
    pub fn settle(&self, seed: u64, of: u32, stays: &mut [Stay]) {
        let mut draws = Draws::new(seed, Purpose::Departures, of);
        for stay in stays {
            let part = draws.part();
            stay.departure = if part < self.announced_share {
                Departure::Announced { cause: DepartureCause::Sleep, notice_s: self.notice_s }
            } else if part < self.announced_share + self.stops_share {
                Departure::Stops { grace_s: self.grace_s }
            } else {
                Departure::UNKNOWN
            };
        }
    }
}

/// Cycles of stay and gap before the recorded time: enough to forget how the first began.
const BURN_IN_CYCLES: f64 = 10.0;

/// The stays of a machine of this habit from `from_s` (0 or before) to `until_s`, as if it had gone on so for long before.
pub fn stays_of(habit: &Habit, seed: u64, of: u32, from_s: f64, until_s: f64) -> Vec<Stay> {
    let mut draws = Draws::new(seed, Purpose::Sessions, of);
    // The mean of a Weibull is scale * Gamma(1 + 1/shape), at most 1.6 times the scale for the shapes in use: the burn-in need
    // not be exact.
    let mut at_s = from_s - BURN_IN_CYCLES * (1.5 * habit.scale_s + habit.gap_s);
    let mut stays = Vec::new();
    at_s += draws.exponential(habit.gap_s);
    while at_s < until_s {
        let end_s = at_s + draws.weibull(habit.shape, habit.scale_s);
        if end_s > from_s {
            stays.push(Stay { start_s: at_s, end_s, is_end_seen: true, departure: Departure::UNKNOWN });
        }
        at_s = end_s + draws.exponential(habit.gap_s);
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_there_as_much_as_its_habit_says_from_the_first_moment_on() {
        let habit = Habit { shape: 1.0, scale_s: 300.0, gap_s: 600.0 };
        let all: Vec<Vec<Stay>> = (0..3000).map(|of| stays_of(&habit, 5, of, 0.0, 2000.0)).collect();
        for at_s in [0.0, 1000.0, 1999.0] {
            let there = all.iter().filter(|stays| stays.iter().any(|s| s.start_s <= at_s && at_s < s.end_s)).count();
            assert!((there as f64 / 3000.0 - 1.0 / 3.0).abs() < 0.04, "{at_s}: {there}");
        }
        assert!(all.iter().flatten().all(|stay| stay.end_s > 0.0 && stay.start_s < 2000.0));
    }

    #[test]
    fn departures_come_in_the_shares_that_were_asked_for() {
        let spec = LeavingSpec { announced_share: 0.5, notice_s: 30.0, stops_share: 0.25, grace_s: 10.0 };
        let stay = Stay { start_s: 0.0, end_s: 1.0, is_end_seen: true, departure: Departure::UNKNOWN };
        let mut stays = vec![stay; 4000];
        spec.settle(1, 2, &mut stays);
        let count =
            |is: fn(&Departure) -> bool| stays.iter().filter(|stay| is(&stay.departure)).count() as f64 / 4000.0;
        assert!((count(|d| matches!(d, Departure::Announced { .. })) - 0.5).abs() < 0.03);
        assert!((count(|d| matches!(d, Departure::Stops { .. })) - 0.25).abs() < 0.03);
        let mut again = vec![stay; 4000];
        spec.settle(1, 2, &mut again);
        assert_eq!(again, stays);
    }
}
