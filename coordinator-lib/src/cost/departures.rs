//! When a peer is expected to leave, exactly: what the expectation of a piecewise linear loss is made of.
//!
//! ```text
//! stretches of constant hazard --> P(leaves before t), and the integral of t f(t) up to t --> E[a + b t; leaves before T]
//! ```
//!
//! A loss that is linear in the time of the departure has its expectation in those two numbers, so that one walk over a
//! peer's curve serves every horizon. Deliberately absent: cells. Where the hazard is piecewise constant nothing here is
//! an approximation.

use crate::hazard::{Hazard, Segment};

/// Below this many expected departures on a stretch the closed form cancels, and the series is exact to a double.
const SERIES_BELOW: f64 = 0.02;

/// The expected loss on one stretch, entered with probability `survival`: a departure `x` seconds into it costs
/// `at_entry_s + per_s * x` seconds.
///
/// S [A (1 - e^-nD) + B ((1 - e^-nD)/n - D e^-nD)] for rate n and length D: `policy.md` section 3.
pub fn segment_loss_s(segment: Segment, survival: f64, at_entry_s: f64, per_s: f64) -> f64 {
    let (leaves, mean_s) = departure(segment);
    survival * (at_entry_s * leaves + per_s * mean_s)
}

/// On one stretch: the probability of a departure, and its mean time in seconds times that probability.
fn departure(segment: Segment) -> (f64, f64) {
    let departures = segment.rate_per_s * segment.length_s;
    let leaves = -(-departures).exp_m1();
    (leaves, segment.length_s * mean_part(departures, leaves))
}

/// (1 - e^-x)/x - e^-x, given x and 1 - e^-x.
fn mean_part(x: f64, leaves: f64) -> f64 {
    if x < SERIES_BELOW {
        return x * (0.5 - x * (1.0 / 3.0 - x * (1.0 / 8.0 - x * (1.0 / 30.0 - x * (1.0 / 144.0 - x / 840.0)))));
    }
    leaves / x - (1.0 - leaves)
}

/// Stretches that a curve is taken to have: those of a digest. One with more takes a moment longer.
const USUAL_STRETCHES: usize = 16;

/// Departures before some time: how likely, and when.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Departures {
    /// The probability of one.
    pub probability: f64,
    /// The integral of t f(t): the mean time of a departure, in seconds, times the probability of one.
    pub moment_s: f64,
}

impl Departures {
    /// Those that come after `earlier` and before these.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { probability: self.probability - earlier.probability, moment_s: self.moment_s - earlier.moment_s }
    }

    /// The expected loss over them, if one at `t` seconds costs `at_zero_s + per_s * t`.
    pub fn loss_s(self, at_zero_s: f64, per_s: f64) -> f64 {
        at_zero_s * self.probability + per_s * self.moment_s
    }
}

/// The departures of one peer up to a horizon, ready to be asked for any time before it.
#[derive(Debug, Clone, PartialEq)]
pub struct DepartureCurve {
    stretches: Vec<Stretch>,
}

/// A segment, where it begins, and what came before it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    segment: Segment,
    from_s: f64,
    survival: f64,
    before: Departures,
}

impl Stretch {
    /// Departures until `t_s`, which is not before the stretch begins.
    fn until(&self, t_s: f64) -> Departures {
        let part = Segment { length_s: (t_s - self.from_s).min(self.segment.length_s), ..self.segment };
        let (leaves, mean_s) = departure(part);
        self.after(leaves, mean_s)
    }

    /// Departures until a time before which one comes with probability `leaves` once the stretch is entered, `mean_s` seconds
    /// into it on average, times that probability.
    fn after(&self, leaves: f64, mean_s: f64) -> Departures {
        Departures {
            probability: self.before.probability + self.survival * leaves,
            moment_s: self.before.moment_s + self.survival * (self.from_s * leaves + mean_s),
        }
    }
}

impl DepartureCurve {
    /// Of a peer with this `hazard`, up to `horizon_s` seconds from now.
    pub fn new(hazard: &Hazard<'_>, horizon_s: f64) -> Self {
        let mut stretches: Vec<Stretch> = Vec::with_capacity(USUAL_STRETCHES);
        let (mut from_s, mut survival, mut before) = (0.0, 1.0, Departures::default());
        hazard.for_each_segment(horizon_s, &mut |segment| {
            let stretch = Stretch { segment, from_s, survival, before };
            let (leaves, mean_s) = departure(segment);
            before = stretch.after(leaves, mean_s);
            from_s += segment.length_s;
            survival *= 1.0 - leaves;
            stretches.push(stretch);
        });
        Self { stretches }
    }

    /// The departures before `t_s`; beyond the horizon, those before the horizon. None before what is no positive time.
    pub fn until(&self, t_s: f64) -> Departures {
        let begun = self.stretches.partition_point(|stretch| stretch.from_s < t_s);
        begun.checked_sub(1).map_or_else(Departures::default, |last| self.stretches[last].until(t_s))
    }

    /// The expectation over departures before `end_s` of `loss_s`, which must be linear between the `kinks_s` (in any
    /// order; those outside the time in question do not matter).
    pub fn expected_s<const N: usize>(&self, end_s: f64, mut kinks_s: [f64; N], loss_s: impl Fn(f64) -> f64) -> f64 {
        kinks_s.sort_by(f64::total_cmp);
        let (mut expected_s, mut from_s, mut before) = (0.0, 0.0, Departures::default());
        for to_s in kinks_s.into_iter().filter(|kink_s| *kink_s < end_s).chain([end_s]) {
            let length_s = to_s - from_s;
            if length_s > 0.0 {
                let until = self.until(to_s);
                // Two points inside tell the line, whichever way the loss jumps at its kinks.
                let (early_s, late_s) = (loss_s(from_s + 0.25 * length_s), loss_s(from_s + 0.75 * length_s));
                let per_s = (late_s - early_s) / (0.5 * length_s);
                let at_from_s = early_s - 0.5 * (late_s - early_s);
                expected_s += until.since(before).loss_s(at_from_s - per_s * from_s, per_s);
                (from_s, before) = (to_s, until);
            }
        }
        expected_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::Survival;

    /// Ten quiet seconds, ten dangerous ones, then a constant hazard.
    #[derive(Debug)]
    struct Three;

    const STRETCHES: [(f64, f64); 3] = [(10.0, 1e-4), (10.0, 0.2), (f64::INFINITY, 0.01)];

    impl Survival for Three {
        fn survival(&self, t_s: f64) -> f64 {
            let mut left_s = t_s;
            let mut hazard = 0.0;
            for (length_s, rate_per_s) in STRETCHES {
                hazard += rate_per_s * left_s.clamp(0.0, length_s);
                left_s -= length_s;
            }
            (-hazard).exp()
        }

        fn for_each_segment(&self, _: f64, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
            let mut left_s = horizon_s;
            for (length_s, rate_per_s) in STRETCHES {
                if left_s > 0.0 {
                    visit(Segment { length_s: length_s.min(left_s), rate_per_s });
                }
                left_s -= length_s;
            }
        }
    }

    /// The same expectation by 200,000 cells.
    fn by_cells(end_s: f64, loss_s: impl Fn(f64) -> f64) -> f64 {
        let cells = 200_000;
        let edge = |k: i32| f64::from(k) * end_s / f64::from(cells);
        let cell =
            |k: i32| (Three.survival(edge(k)) - Three.survival(edge(k + 1))) * loss_s(edge(k).midpoint(edge(k + 1)));
        (0..cells).map(cell).sum()
    }

    #[test]
    fn the_exact_expectation_agrees_with_fine_cells() {
        let curve = DepartureCurve::new(&Hazard { curve: &Three, age_s: 0.0 }, 300.0);
        let kinked = |t_s: f64| (40.0 - 2.0 * t_s).max(0.0) + 3.0;
        for end_s in [1.0, 9.0, 15.0, 25.0, 300.0] {
            for (name, loss_s) in
                [("constant", &(|_| 7.0) as &dyn Fn(f64) -> f64), ("rising", &|t_s| 2.0 + t_s), ("kinked", &kinked)]
            {
                let (exact, cells) = (curve.expected_s(end_s, [20.0], loss_s), by_cells(end_s, loss_s));
                assert!((exact - cells).abs() < 1e-6 * cells.max(1.0), "{name} to {end_s}: {exact}, {cells}");
            }
        }
    }

    #[test]
    fn a_stretch_is_exact_from_no_hazard_to_certainty() {
        let mean = |rate_per_s| segment_loss_s(Segment { length_s: 2.0, rate_per_s }, 1.0, 0.0, 1.0);
        assert_eq!(mean(0.0), 0.0);
        // n D^2 / 2 to first order.
        assert!((mean(1e-14) / 2e-14 - 1.0).abs() < 1e-12);
        assert!((mean(1e9) - 1e-9).abs() < 1e-18, "at once");
        let (below, above) = (SERIES_BELOW * 0.5 * (1.0 - 1e-12), SERIES_BELOW * 0.5);
        assert!((mean(below) / mean(above) - 1.0).abs() < 1e-11, "the series goes over into the closed form");
    }

    #[test]
    fn odd_times_have_no_departures_and_those_beyond_the_horizon_no_more_than_it() {
        let curve = DepartureCurve::new(&Hazard { curve: &Three, age_s: 0.0 }, 30.0);
        for t_s in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(curve.until(t_s), Departures::default(), "{t_s}");
            assert_eq!(curve.expected_s(t_s, [1.0, f64::NAN], |_| 5.0), 0.0, "{t_s}");
        }
        assert_eq!(curve.until(f64::INFINITY), curve.until(30.0));
    }
}
