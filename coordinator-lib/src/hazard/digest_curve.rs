//! Survival as it travels in a digest.

use idlewild_protocol::{HORIZONS_S, QuantisedSurvival};

use super::segment::{covered_s, read_age_s};
use super::{KaplanMeier, Segment, Session, Survival};

/// The cumulative hazard from which a digest says no more than "gone": its codes end at 20.
const SATURATED: f64 = 19.9;

/// The survival of one peer's present session from when its digest was made.
///
/// The cumulative hazard is linear from 0 to the first horizon and between horizons, and goes on at its last slope
/// beyond 24 h: the hazard is constant on each piece. It also goes on so where the digest's codes end: a peer that is
/// sure to leave in ten seconds must not look endless in eleven. An age is the seconds since the digest was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DigestCurve {
    /// Each ends at one of [`HORIZONS_S`]; the last goes on.
    pieces: [Piece; HORIZONS_S.len()],
}

/// A stretch of constant hazard.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Piece {
    from_s: f64,
    to_s: f64,
    /// Cumulative hazard at `from_s`.
    cumulative: f64,
    /// Departures a second.
    rate: f64,
}

impl DigestCurve {
    /// The curve of `survival`, as a digest carries it.
    pub fn new(survival: &QuantisedSurvival) -> Self {
        let mut pieces = [Piece::default(); HORIZONS_S.len()];
        let mut before = Piece::default();
        for ((piece, to_s), at_end) in pieces.iter_mut().zip(HORIZONS_S).zip(survival.cumulative_hazard()) {
            *piece = before.followed_by(to_s, at_end);
            before = *piece;
        }
        Self { pieces }
    }

    /// Seconds that the session is expected to last from `age_s` seconds after the digest, none counted beyond 24 h
    /// after the digest.
    pub fn expected_remaining_s(&self, age_s: f64) -> f64 {
        let age_s = age_s.max(0.0);
        let lost = self.cumulative_hazard(age_s);
        self.pieces.iter().map(|piece| piece.expected_after_s(age_s, lost)).sum()
    }

    fn cumulative_hazard(&self, t_s: f64) -> f64 {
        let t_s = t_s.max(0.0);
        let at = HORIZONS_S.partition_point(|&horizon_s| horizon_s <= t_s).min(HORIZONS_S.len() - 1);
        self.pieces[at].cumulative_hazard(t_s)
    }
}

impl Piece {
    /// The next piece, which reaches `at_end` at `to_s`; as steep as this one where the codes had ended before it.
    fn followed_by(self, to_s: f64, at_end: f64) -> Self {
        let (from_s, cumulative) = (self.to_s, self.cumulative_hazard(self.to_s));
        // Codes never fall, but sums round.
        let rise = (at_end - cumulative).max(0.0);
        let rate = if cumulative >= SATURATED { self.rate } else { rise / (to_s - from_s) };
        Self { from_s, to_s, cumulative, rate }
    }

    fn cumulative_hazard(self, t_s: f64) -> f64 {
        self.cumulative + self.rate * (t_s - self.from_s)
    }

    /// The integral of exp(-(H(t) - `lost`)) over the part of the piece that is later than `age_s`.
    fn expected_after_s(self, age_s: f64, lost: f64) -> f64 {
        let from_s = self.from_s.max(age_s);
        let length_s = self.to_s - from_s;
        if length_s <= 0.0 {
            return 0.0;
        }
        let survival = (lost - self.cumulative_hazard(from_s)).exp();
        let decay = self.rate * length_s;
        // (1 - e^-x) / x, which is 1 at 0.
        let mean = if decay > 0.0 { -(-decay).exp_m1() / decay } else { 1.0 };
        survival * length_s * mean
    }
}

impl Survival for DigestCurve {
    fn survival(&self, t_s: f64) -> f64 {
        (-self.cumulative_hazard(t_s)).exp()
    }

    /// Exact where S(age) is too small to divide by.
    fn conditional(&self, age_s: f64, t_s: f64) -> f64 {
        (self.cumulative_hazard(age_s) - self.cumulative_hazard(age_s + t_s)).exp().min(1.0)
    }

    /// Its pieces as they are, the last one for as long as is asked.
    fn for_each_segment(&self, age_s: f64, horizon_s: f64, visit: &mut dyn FnMut(Segment)) {
        let Some(horizon_s) = covered_s(horizon_s) else { return };
        let age_s = read_age_s(age_s);
        let first = HORIZONS_S.partition_point(|&ends_s| ends_s <= age_s).min(HORIZONS_S.len() - 1);
        let mut from_s = 0.0;
        for (at, piece) in self.pieces.iter().enumerate().skip(first) {
            let goes_on = at + 1 == self.pieces.len();
            let to_s = if goes_on { horizon_s } else { (piece.to_s - age_s).min(horizon_s) };
            if to_s > from_s {
                visit(Segment { length_s: to_s - from_s, rate_per_s: piece.rate });
                from_s = to_s;
            }
        }
    }
}

/// What a digest says of a session that has lasted `age_s` seconds and whose length follows `curve`.
pub fn quantise(curve: &KaplanMeier, age_s: f64) -> QuantisedSurvival {
    QuantisedSurvival::of(|t_s| curve.remaining(age_s, t_s))
}

/// What a peer's digest says of its live session, `age_s` seconds old, given its sessions that are `over`.
///
/// The live session takes part in the fit, censored at its age: that the peer has outlived its former sessions counts.
pub fn quantise_sessions(over: &[Session], age_s: f64) -> QuantisedSurvival {
    let all: Vec<Session> = over.iter().copied().chain([Session::censored(age_s)]).collect();
    quantise(&KaplanMeier::fit(&all), age_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(mean_s: f64) -> DigestCurve {
        DigestCurve::new(&QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp()))
    }

    #[test]
    fn the_horizons_get_back_what_was_quantised() {
        let quantised = QuantisedSurvival::of(|t_s| (-t_s / 700.0).exp());
        let curve = DigestCurve::new(&quantised);
        for (horizon_s, survival) in HORIZONS_S.into_iter().zip(quantised.survival()) {
            assert!((curve.survival(horizon_s) - survival).abs() < 1e-8, "at {horizon_s}");
        }
    }

    #[test]
    fn cumulative_hazard_is_linear_from_zero_and_between_horizons_and_beyond() {
        let curve = exponential(10_000.0);
        let line = |from_s: f64, to_s: f64, part: f64| {
            let (from, to) = (curve.cumulative_hazard(from_s), curve.cumulative_hazard(to_s));
            let got = curve.cumulative_hazard(from_s + part * (to_s - from_s));
            assert!((got - (from + part * (to - from))).abs() < 1e-9, "between {from_s} and {to_s}");
        };
        line(0.0, HORIZONS_S[0], 0.3);
        line(HORIZONS_S[8], HORIZONS_S[9], 0.5);
        line(HORIZONS_S[14], HORIZONS_S[15], 3.0);
        assert_eq!(curve.survival(0.0), 1.0);
        assert_eq!(curve.survival(-1.0), 1.0);
    }

    #[test]
    fn a_session_longer_than_all_before_is_not_immortal() {
        let over = [Session::ended(60.0), Session::ended(120.0)];
        let quantised = quantise_sessions(&over, 600.0);
        let leaves = DigestCurve::new(&quantised).leave_probability(0.0, HORIZONS_S[5]);
        assert!((leaves - (1.0 - (-HORIZONS_S[5] / 90.0).exp())).abs() < 0.011, "{leaves}");
    }

    #[test]
    fn the_expected_rest_of_an_exponential_session_is_its_mean() {
        for mean_s in [60.0, 600.0, 3600.0] {
            let rest_s = exponential(mean_s).expected_remaining_s(0.0);
            assert!((rest_s / mean_s - 1.0).abs() < 0.03, "{rest_s} of {mean_s}");
            let later_s = exponential(mean_s).expected_remaining_s(mean_s / 2.0);
            assert!((later_s / mean_s - 1.0).abs() < 0.05, "{later_s} of {mean_s}");
        }
    }

    #[test]
    fn a_session_that_cannot_end_is_expected_to_last_until_the_last_horizon() {
        let curve = DigestCurve::new(&QuantisedSurvival::of(|_| 1.0));
        assert_eq!(curve.expected_remaining_s(0.0), 86_400.0);
        assert_eq!(curve.expected_remaining_s(86_400.0), 0.0);
    }

    #[test]
    fn a_conditional_survival_is_right_where_almost_nothing_survives() {
        let curve = exponential(100.0);
        let got = curve.conditional(1500.0, 100.0);
        assert!((got - (-1.0_f64).exp()).abs() < 0.04, "{got}");
    }

    #[test]
    fn a_peer_that_was_sure_to_leave_does_not_look_endless_when_its_digest_is_late() {
        let leaves_in_ten = QuantisedSurvival::of(|t_s| if t_s < 10.0 { 1.0 } else { 0.0 });
        let curve = DigestCurve::new(&leaves_in_ten);
        assert_eq!(curve.leave_probability(0.0, 9.0), 0.0);
        assert!(curve.leave_probability(30.0, 5.0) > 0.99, "half a minute after the digest");
        assert!(curve.leave_probability(100_000.0, 5.0) > 0.99, "beyond the last horizon");
    }
}
