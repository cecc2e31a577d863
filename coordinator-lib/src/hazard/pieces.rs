//! A survival curve with piecewise constant hazard, from now on.

use super::segment::{covered_s, read_age_s};
use super::{Segment, Survival};

/// A stretch of constant hazard, as seconds from when the curve was made.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    from_s: f64,
    /// Cumulative hazard at `from_s`.
    cumulative: f64,
    /// Departures a second, finite and not negative.
    rate: f64,
}

/// The survival of one live session from when the curve was made; an age is the seconds since then.
///
/// The hazard is constant on each piece, and goes on for ever as on the last. A curve without pieces never ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PieceCurve {
    pieces: Vec<Piece>,
    /// Where the next piece would begin.
    end_s: f64,
    /// Cumulative hazard there.
    end_cumulative: f64,
}

impl PieceCurve {
    /// A curve without pieces, with room for `pieces`.
    pub fn with_capacity(pieces: usize) -> Self {
        Self { pieces: Vec::with_capacity(pieces), end_s: 0.0, end_cumulative: 0.0 }
    }

    /// Adds a stretch at the end. One of no length adds nothing; a rate that is no rate counts as none.
    pub fn push(&mut self, segment: Segment) {
        let Segment { length_s, rate_per_s } = segment;
        if !(length_s.is_finite() && length_s > 0.0) {
            return;
        }
        let rate = if rate_per_s.is_finite() { rate_per_s.max(0.0) } else { 0.0 };
        self.pieces.push(Piece { from_s: self.end_s, cumulative: self.end_cumulative, rate });
        self.end_s += length_s;
        self.end_cumulative += rate * length_s;
    }

    /// How many pieces it has.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether it has none, and so never ends.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Seconds that the session is expected to last from `age_s` seconds after the curve was made, none counted beyond
    /// `horizon_s` from then.
    pub fn expected_remaining_s(&self, age_s: f64, horizon_s: f64) -> f64 {
        let (mut expected_s, mut survival) = (0.0, 1.0);
        self.for_each_segment(age_s, horizon_s, &mut |segment| {
            let decay = segment.rate_per_s * segment.length_s;
            let lost = -(-decay).exp_m1();
            // (1 - e^-x) / x, which is 1 at 0.
            let mean = if decay > 0.0 { lost / decay } else { 1.0 };
            expected_s += survival * segment.length_s * mean;
            survival *= 1.0 - lost;
        });
        expected_s
    }

    /// The piece that holds `t_s`: the first that does not end before it.
    fn at(&self, t_s: f64) -> usize {
        self.pieces.partition_point(|piece| piece.from_s <= t_s).saturating_sub(1)
    }

    fn cumulative_hazard(&self, t_s: f64) -> f64 {
        let t_s = t_s.max(0.0);
        let Some(piece) = self.pieces.get(self.at(t_s)) else { return 0.0 };
        // 0 * infinity is no number.
        if piece.rate > 0.0 { piece.cumulative + piece.rate * (t_s - piece.from_s) } else { piece.cumulative }
    }
}

impl Survival for PieceCurve {
    fn survival(&self, t_s: f64) -> f64 {
        (-self.cumulative_hazard(t_s)).exp()
    }

    /// Exact where S(age) is too small to divide by.
    fn conditional(&self, age_s: f64, t_s: f64) -> f64 {
        let lost = self.cumulative_hazard(age_s + t_s) - self.cumulative_hazard(age_s);
        // Two infinite ones differ by no number: the session is over in no time.
        if lost.is_nan() { f64::from(u8::from(t_s <= 0.0)) } else { (-lost).exp().min(1.0) }
    }

    fn for_each_segment(&self, age_s: f64, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
        let Some(horizon_s) = covered_s(horizon_s) else { return };
        let age_s = read_age_s(age_s);
        let (mut index, mut done_s) = (self.at(age_s), 0.0);
        while done_s < horizon_s {
            let next_s = self.pieces.get(index + 1).map_or(f64::INFINITY, |next| next.from_s - age_s);
            let rate_per_s = self.pieces.get(index).map_or(0.0, |piece| piece.rate);
            let to_s = next_s.min(horizon_s);
            if to_s > done_s {
                visit(Segment { length_s: to_s - done_s, rate_per_s });
                done_s = to_s;
            }
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(segments: &[(f64, f64)]) -> PieceCurve {
        let mut curve = PieceCurve::default();
        for &(length_s, rate_per_s) in segments {
            curve.push(Segment { length_s, rate_per_s });
        }
        curve
    }

    fn segments(curve: &PieceCurve, age_s: f64, horizon_s: f64) -> Vec<(f64, f64)> {
        let mut seen = Vec::new();
        curve.for_each_segment(age_s, horizon_s, &mut |s| seen.push((s.length_s, s.rate_per_s)));
        seen
    }

    #[test]
    fn survival_is_exponential_on_each_piece_and_beyond_the_last() {
        let curve = curve(&[(10.0, 0.1), (20.0, 0.0), (5.0, 0.2)]);
        for (t_s, cumulative) in [(0.0, 0.0), (5.0, 0.5), (10.0, 1.0), (29.0, 1.0), (31.0, 1.2), (100.0, 15.0)] {
            assert!((curve.survival(t_s) - f64::exp(-cumulative)).abs() < 1e-12, "S({t_s})");
        }
        assert!((curve.conditional(5.0, 26.0) - f64::exp(-0.7)).abs() < 1e-12);
    }

    #[test]
    fn segments_begin_at_the_age_and_end_at_the_horizon() {
        let curve = curve(&[(10.0, 0.1), (20.0, 0.0), (5.0, 0.2)]);
        assert_eq!(segments(&curve, 0.0, 10.0), [(10.0, 0.1)]);
        assert_eq!(segments(&curve, 4.0, 27.0), [(6.0, 0.1), (20.0, 0.0), (1.0, 0.2)]);
        assert_eq!(segments(&curve, 34.0, 100.0), [(100.0, 0.2)]);
        assert_eq!(segments(&curve, 90.0, 100.0), [(100.0, 0.2)]);
        assert_eq!(segments(&PieceCurve::default(), 3.0, 7.0), [(7.0, 0.0)]);
    }

    #[test]
    fn times_that_are_no_times_have_answers() {
        let curve = curve(&[(10.0, 0.1), (f64::NAN, 1.0), (-1.0, 1.0), (5.0, f64::NAN)]);
        assert_eq!(curve.len(), 2);
        for age_s in [f64::NAN, f64::INFINITY, -3.0, 1e300] {
            for t_s in [f64::NAN, f64::INFINITY, -3.0, 1e300, 4.0] {
                let stays = curve.conditional(age_s, t_s);
                assert!((0.0..=1.0).contains(&stays), "{stays} at {age_s}, {t_s}");
                assert!(segments(&curve, age_s, t_s).iter().all(|s| s.0 > 0.0 && s.1 >= 0.0));
            }
        }
    }

    #[test]
    fn the_expected_rest_of_an_exponential_session_is_its_mean() {
        let curve = curve(&[(10.0, 0.01), (20.0, 0.01)]);
        assert!((curve.expected_remaining_s(0.0, 1e5) - 100.0).abs() < 1e-6);
        assert!((curve.expected_remaining_s(700.0, 1e5) - 100.0).abs() < 1e-6);
        assert_eq!(PieceCurve::default().expected_remaining_s(0.0, 50.0), 50.0);
    }
}
