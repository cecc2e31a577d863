//! A survival curve as stretches of constant hazard: the form in which the loss has an exact integral.
//!
//! Models that are piecewise constant give their own stretches. Any other curve is cut into equal cells, each with the
//! rate that takes it from its survival at the one edge to that at the other: exact at the edges, smooth between.
//!
//! Deliberately absent: infinities. A horizon, an age and a departure that is certain all have a greatest value, so that
//! nothing downstream multiplies 0 by an infinite rate.

use super::Survival;

/// Equal cells that a curve without stretches of its own is cut into.
const CELLS: u32 = 16;

/// The greatest horizon and age in seconds, some thirty years: what is beyond reads as this.
const HORIZON_MAX_S: f64 = 1e9;

/// The cumulative hazard that stands for a certain departure: survival 2e-22.
const CERTAIN: f64 = 50.0;

/// A stretch of time in which the hazard is constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// How long it lasts, in seconds: positive and finite.
    pub length_s: f64,
    /// Departures a second in it: finite, never negative.
    pub rate_per_s: f64,
}

/// The seconds that `horizon_s` covers: none for what is no positive time, at most [`HORIZON_MAX_S`].
pub(super) fn covered_s(horizon_s: f64) -> Option<f64> {
    (horizon_s > 0.0).then(|| horizon_s.min(HORIZON_MAX_S))
}

/// The age that `age_s` reads as: what is negative or not a number is 0.
pub(super) fn read_age_s(age_s: f64) -> f64 {
    if age_s > 0.0 { age_s.min(HORIZON_MAX_S) } else { 0.0 }
}

/// Visits the stretches of `curve` from `age_s` on as [`CELLS`] equal cells.
pub(super) fn visit_cells<S: Survival + ?Sized>(curve: &S, age_s: f64, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
    let Some(horizon_s) = covered_s(horizon_s) else { return };
    let age_s = read_age_s(age_s);
    let length_s = horizon_s / f64::from(CELLS);
    // The curve may be tiny at this age already: only its fall from here on counts. If nothing is left of it, sessions
    // are never so old, and what is not known to be safe reads as certain to leave.
    let now = Some(-curve.conditional(age_s, 0.0).ln()).filter(|hazard| hazard.is_finite()).unwrap_or(0.0);
    let mut before = 0.0;
    for edge in 1..=CELLS {
        let hazard = -curve.conditional(age_s, f64::from(edge) * length_s).ln() - now;
        let hazard = if hazard.is_nan() { CERTAIN } else { hazard.clamp(before, CERTAIN.max(before)) };
        visit(Segment { length_s, rate_per_s: (hazard - before) / length_s });
        before = hazard;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::{DigestCurve, KaplanMeier, Session};
    use idlewild_protocol::QuantisedSurvival;

    fn segments(curve: &dyn Survival, age_s: f64, horizon_s: f64) -> Vec<Segment> {
        let mut all = Vec::new();
        curve.for_each_segment(age_s, horizon_s, &mut |segment| all.push(segment));
        all
    }

    /// Survival at the end of each stretch, with the time since now.
    fn edges(segments: &[Segment]) -> Vec<(f64, f64)> {
        let (mut t_s, mut hazard) = (0.0, 0.0);
        let mut edge = |segment: &Segment| {
            t_s += segment.length_s;
            hazard += segment.length_s * segment.rate_per_s;
            (t_s, (-hazard).exp())
        };
        segments.iter().map(&mut edge).collect()
    }

    fn digest() -> DigestCurve {
        DigestCurve::new(&QuantisedSurvival::of(|t_s| (-(t_s / 300.0).powf(0.7)).exp()))
    }

    #[test]
    fn stretches_cover_the_horizon_and_agree_with_the_curve_at_their_edges() {
        let steps = KaplanMeier::fit(&[Session::ended(30.0), Session::ended(90.0), Session::censored(200.0)]);
        let curves: [&dyn Survival; 2] = [&steps, &digest()];
        for (curve, age_s, horizon_s) in curves.into_iter().flat_map(|curve| {
            [(0.0, 3.0), (0.0, 100.0), (7.0, 64.0), (40.0, 1e5), (100.0, 1e-3)]
                .map(|(age_s, to_s)| (curve, age_s, to_s))
        }) {
            let edges = edges(&segments(curve, age_s, horizon_s));
            let (end_s, _) = edges.last().copied().unwrap();
            assert!((end_s / horizon_s - 1.0).abs() < 1e-12, "{curve:?} ends at {end_s}, not {horizon_s}");
            for (t_s, survival) in edges {
                let expected = curve.conditional(age_s, t_s);
                assert!((survival - expected).abs() < 1e-8, "{curve:?} from {age_s} at {t_s}: {survival}, {expected}");
            }
        }
    }

    #[test]
    fn a_digests_stretches_end_where_its_pieces_end() {
        let lengths: Vec<f64> = segments(&digest(), 2.0, 10.0).iter().map(|segment| segment.length_s).collect();
        assert_eq!(lengths.len(), 3, "{lengths:?}");
        for (length_s, expected_s) in lengths.into_iter().zip([3.0, 4.582, 2.418]) {
            assert!((length_s - expected_s).abs() < 1e-9, "{length_s}");
        }
    }

    #[test]
    fn what_is_no_time_has_no_stretches_and_the_endless_has_an_end() {
        let steps = KaplanMeier::fit(&[Session::ended(30.0)]);
        let curves: [&dyn Survival; 2] = [&steps, &digest()];
        for curve in curves {
            for horizon_s in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
                assert_eq!(segments(curve, 0.0, horizon_s), [], "{horizon_s}");
            }
            for (age_s, horizon_s) in [(0.0, f64::INFINITY), (f64::INFINITY, 60.0), (f64::NAN, 60.0), (-5.0, 60.0)] {
                let all = segments(curve, age_s, horizon_s);
                assert!(all.iter().all(|s| s.length_s > 0.0 && s.rate_per_s >= 0.0), "{curve:?} {age_s}: {all:?}");
                assert!(all.iter().all(|s| s.length_s.is_finite() && s.rate_per_s.is_finite()), "{age_s}: {all:?}");
                assert!((edges(&all).last().unwrap().0 / horizon_s.min(HORIZON_MAX_S) - 1.0).abs() < 1e-9);
            }
        }
    }

    /// Answers nothing that is a probability.
    #[derive(Debug)]
    struct Broken;

    impl Survival for Broken {
        fn survival(&self, _: f64) -> f64 {
            f64::NAN
        }
    }

    #[test]
    fn a_curve_that_answers_nothing_reads_as_certain_to_leave() {
        let left = edges(&segments(&Broken, 0.0, 60.0)).last().unwrap().1;
        assert!(left < 1e-20, "{left}");
    }
}
