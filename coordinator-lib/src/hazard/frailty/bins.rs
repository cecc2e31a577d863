//! How ages and weeks are cut: within a bin and a slot the hazard is constant.

/// Where age bins end, in seconds: finer where sessions end sooner, to the hours where people come back to machines
/// that they left for the night or the weekend.
pub(super) const AGE_EDGES_S: [f64; 21] = [
    15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 14_400.0, 21_600.0, 28_800.0,
    36_000.0, 43_200.0, 57_600.0, 86_400.0, 129_600.0, 172_800.0, 345_600.0,
];

/// One more than edges: the last bin has no end.
pub(super) const AGE_BINS: usize = AGE_EDGES_S.len() + 1;

/// Slots of an hour in a week.
pub(super) const SLOTS: usize = 168;

const HOUR_S: f64 = 3600.0;
pub(super) const WEEK_S: f64 = 7.0 * 24.0 * HOUR_S;

/// The least step of a walk, in seconds: where rounding leaves less to a boundary, it is taken as passed.
const MIN_STEP_S: f64 = 1e-3;

/// The longest time that is walked in one go, in seconds: a clock that jumped by years is no observation of years.
pub(super) const MOST_WALKED_S: f64 = 60.0 * 86_400.0;

/// The bin of an age.
pub(super) fn age_bin(age_s: f64) -> usize {
    AGE_EDGES_S.partition_point(|&edge_s| edge_s <= age_s)
}

/// A time in which neither age bin nor slot changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    /// When it begins, in seconds after the walk's beginning.
    pub(super) from_s: f64,
    pub(super) length_s: f64,
    pub(super) age_bin: usize,
    /// Hour of the week, 0 for Monday's first by the local time, or for the clock's first where that is unknown.
    pub(super) slot: usize,
    is_local: bool,
}

impl Stretch {
    /// The hour of the week by the local time; none if that is unknown.
    pub(super) fn local_slot(&self) -> Option<usize> {
        self.is_local.then_some(self.slot)
    }
}

/// Where a walk starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Start {
    /// How old the session is.
    age_s: f64,
    /// Seconds since a Monday, 00:00, by the local time; by the clock, as if that had begun then, if it is unknown.
    week_s: f64,
    is_local: bool,
}

impl Start {
    /// At `at_s`, where Monday, 00:00 is `week_offset_s` before the clock's zero.
    pub(super) fn new(age_s: f64, at_s: f64, week_offset_s: Option<f64>) -> Self {
        let offset_s = week_offset_s.filter(|offset_s| offset_s.is_finite());
        let week_s = (at_s + offset_s.unwrap_or(0.0)).rem_euclid(WEEK_S);
        Self { age_s, week_s: if week_s.is_finite() { week_s } else { 0.0 }, is_local: offset_s.is_some() }
    }

    /// The bin and the slot in which it lies, as a stretch of no length.
    pub(super) fn moment(self) -> Stretch {
        Stretch {
            from_s: 0.0,
            length_s: 0.0,
            age_bin: age_bin(self.age_s),
            slot: self.slot(0.0).0,
            is_local: self.is_local,
        }
    }

    /// Calls `visit` with the stretches of the next `length_s` seconds, in order.
    pub(super) fn walk(self, length_s: f64, visit: impl FnMut(Stretch)) {
        self.walk_with_edges(length_s, &[], visit);
    }

    /// As [`Self::walk`], with more edges, at `edges_s` seconds after the beginning, ascending.
    pub(super) fn walk_with_edges(self, length_s: f64, edges_s: &[f64], mut visit: impl FnMut(Stretch)) {
        let length_s = if length_s.is_nan() { 0.0 } else { length_s.min(MOST_WALKED_S) };
        let mut age_bin = age_bin(self.age_s);
        let mut more = edges_s.iter().copied().filter(|&edge_s| edge_s > 0.0).peekable();
        let mut from_s = 0.0;
        while from_s < length_s {
            let (slot, next_slot_s) = self.slot(from_s);
            let next_bin_s = AGE_EDGES_S.get(age_bin).map_or(f64::INFINITY, |edge_s| edge_s - self.age_s);
            let next_edge_s = more.peek().copied().unwrap_or(f64::INFINITY);
            let to_s = next_bin_s.min(next_slot_s).min(next_edge_s).max(from_s + MIN_STEP_S).min(length_s);
            visit(Stretch { from_s, length_s: to_s - from_s, age_bin, slot, is_local: self.is_local });
            age_bin += usize::from(next_bin_s <= to_s);
            while more.next_if(|&edge_s| edge_s <= to_s).is_some() {}
            from_s = to_s;
        }
    }

    /// The slot `from_s` seconds after the beginning, and how many seconds after the beginning it ends.
    fn slot(self, from_s: f64) -> (usize, f64) {
        // A boundary that rounding has put a hair ahead is passed.
        let hours = ((self.week_s + from_s + MIN_STEP_S / 2.0) / HOUR_S).floor();
        (hours as usize % SLOTS, (hours + 1.0) * HOUR_S - self.week_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(start: Start, length_s: f64) -> Vec<(f64, f64, usize, usize)> {
        let mut seen = Vec::new();
        start.walk(length_s, |s| seen.push((s.from_s, s.length_s, s.age_bin, s.slot)));
        seen
    }

    #[test]
    fn a_walk_is_cut_at_ages_and_at_the_hours_of_the_peers_clock() {
        let start = Start::new(10.0, 1000.0, Some(WEEK_S - 1000.0 - 12.0));
        assert_eq!(
            stretches(start, 30.0),
            [(0.0, 5.0, 0, 167), (5.0, 7.0, 1, 167), (12.0, 8.0, 1, 0), (20.0, 10.0, 2, 0)]
        );
    }

    #[test]
    fn without_a_local_time_hours_are_the_clocks_and_not_the_fleets() {
        let start = Start::new(4000.0, 7200.0, None);
        let mut local = Vec::new();
        start.walk(5000.0, |s| local.push(s.local_slot()));
        assert_eq!(local, [None; 3]);
        assert_eq!(stretches(start, 5000.0), [(0.0, 3200.0, 9, 2), (3200.0, 400.0, 10, 2), (3600.0, 1400.0, 10, 3)]);
    }

    #[test]
    fn a_walk_covers_its_length_whatever_the_times() {
        for at_s in [0.0, -1e9, 1e18, 0.123_456_789] {
            for age_s in [0.0, 1e-9, 14.999_999_9, 1e12] {
                for length_s in [1e-6, 3600.0, 604_800.5, 1e12] {
                    let seen = stretches(Start::new(age_s, at_s, Some(3.7)), length_s);
                    let covered_s: f64 = seen.iter().map(|s| s.1).sum();
                    assert!((covered_s - length_s.min(MOST_WALKED_S)).abs() < 1e-6, "{at_s} {age_s} {length_s}");
                    assert!(seen.iter().all(|s| s.1 > 0.0 && s.2 < AGE_BINS && s.3 < SLOTS));
                }
            }
        }
        assert!(stretches(Start::new(0.0, 0.0, None), f64::NAN).is_empty());
        assert!(stretches(Start::new(0.0, 0.0, None), -5.0).is_empty());
    }

    #[test]
    fn a_local_time_that_is_none_is_unknown() {
        for offset_s in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(Start::new(0.0, 5.0, offset_s).moment().local_slot(), None);
        }
        assert_eq!(Start::new(0.0, 5.0, Some(7200.0)).moment().local_slot(), Some(2));
    }
}
