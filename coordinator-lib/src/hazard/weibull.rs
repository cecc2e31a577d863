//! Sessions of a Weibull distribution: the hazard changes as a power of the age.

use serde::{Deserialize, Serialize};

use super::{Session, Survival};

/// Sessions shorter than this count as this long, in seconds: the logarithm of next to nothing would decide alone.
const SHORTEST_S: f64 = 1.0;

/// Shapes that are considered.
const SHAPES: [f64; 2] = [0.05, 8.0];

/// Steps of the search for the best shape, each of which leaves 0.618 of the range: to a hundred-thousandth.
const STEPS: usize = 28;

/// S(t) = exp(-hazard * (t / unit)^shape).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weibull {
    /// Below 1, the longer a session has lasted the longer it will.
    pub shape: f64,
    /// Cumulative hazard at `unit_s`.
    pub hazard: f64,
    /// A typical length, in seconds.
    pub unit_s: f64,
}

/// What is believed before a session is seen: both parameters near the centre's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeibullPrior {
    /// The likeliest curve.
    pub centre: Weibull,
    /// Standard deviation of the logarithm of the shape.
    pub shape_deviation: f64,
    /// How many departures the centre's hazard is worth.
    pub hazard_strength: f64,
}

impl WeibullPrior {
    /// What is believed of a fleet of which nothing is known: half of the sessions end within half an hour.
    pub const VAGUE: Self = Self {
        centre: Weibull { shape: 0.6, hazard: core::f64::consts::LN_2, unit_s: 1800.0 },
        shape_deviation: 1.0,
        hazard_strength: 0.5,
    };

    /// The likeliest curve given `sessions` too (maximum a posteriori; the hazard has a gamma prior, the shape a
    /// lognormal one). Without sessions that is the centre.
    pub fn fit(&self, sessions: &[Session]) -> Weibull {
        let evidence = Evidence::of(sessions, self.centre.unit_s);
        if evidence.relative.is_empty() {
            return self.centre;
        }
        let shape = likeliest(|log_shape| self.log_density(&evidence, log_shape)).exp();
        Weibull { shape, hazard: self.hazard(&evidence, shape), unit_s: self.centre.unit_s }
    }

    /// The likeliest hazard for a shape.
    fn hazard(&self, evidence: &Evidence, shape: f64) -> f64 {
        let exposure: f64 = evidence.relative.iter().map(|log_length| (shape * log_length).exp()).sum();
        let strength = self.hazard_strength;
        (strength + evidence.departures) / (strength / self.centre.hazard + exposure)
    }

    /// The logarithm of the posterior at its likeliest hazard for a shape, but for a constant.
    fn log_density(&self, evidence: &Evidence, log_shape: f64) -> f64 {
        let shape = log_shape.exp();
        let off = (log_shape - self.centre.shape.ln()) / self.shape_deviation;
        evidence.departures * log_shape
            + shape * evidence.log_lengths_of_departures
            + (self.hazard_strength + evidence.departures) * self.hazard(evidence, shape).ln()
            - off * off / 2.0
    }
}

/// Sessions, as far as the likelihood depends on them.
struct Evidence {
    /// ln(length / unit) of each.
    relative: Vec<f64>,
    departures: f64,
    /// Sum of ln(length / unit) over those that ended.
    log_lengths_of_departures: f64,
}

impl Evidence {
    fn of(sessions: &[Session], unit_s: f64) -> Self {
        let usable = || sessions.iter().filter(|session| session.is_usable());
        let log_length = |session: &Session| (session.length_s.max(SHORTEST_S) / unit_s).ln();
        let ended = || usable().filter(|session| session.observed);
        Self {
            relative: usable().map(log_length).collect(),
            departures: ended().count() as f64,
            log_lengths_of_departures: ended().map(log_length).sum(),
        }
    }
}

/// The logarithm of the shape at which `log_density` is greatest, by golden section: it has one peak.
fn likeliest(log_density: impl Fn(f64) -> f64) -> f64 {
    const KEPT: f64 = 0.618_033_988_749_894_9;
    let [mut low, mut high] = SHAPES.map(f64::ln);
    let (mut left, mut right) = (high - KEPT * (high - low), low + KEPT * (high - low));
    let (mut at_left, mut at_right) = (log_density(left), log_density(right));
    for _ in 0..STEPS {
        if at_left > at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - KEPT * (high - low);
            at_left = log_density(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + KEPT * (high - low);
            at_right = log_density(right);
        }
    }
    f64::midpoint(low, high)
}

impl Weibull {
    fn cumulative_hazard(&self, t_s: f64) -> f64 {
        self.hazard * (t_s.max(0.0) / self.unit_s).powf(self.shape)
    }
}

impl Survival for Weibull {
    fn survival(&self, t_s: f64) -> f64 {
        (-self.cumulative_hazard(t_s)).exp()
    }

    /// Exact where S(age) is too small to divide by.
    fn conditional(&self, age_s: f64, t_s: f64) -> f64 {
        let lost = self.cumulative_hazard(age_s + t_s) - self.cumulative_hazard(age_s);
        // Two infinite ones differ by no number: the session is over in no time.
        if lost.is_nan() { f64::from(u8::from(t_s <= 0.0)) } else { (-lost).exp().min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths at the middles of `count` equally likely parts of a distribution.
    fn lengths(weibull: Weibull, count: u32) -> Vec<Session> {
        let part = |k: u32| (f64::from(k) + 0.5) / f64::from(count);
        let length = |p: f64| weibull.unit_s * (-p.ln() / weibull.hazard).powf(1.0 / weibull.shape);
        (0..count).map(|k| Session::ended(length(part(k)))).collect()
    }

    fn check(sessions: &[Session], shape: f64, hazard: f64, within: f64) {
        let fitted = WeibullPrior::VAGUE.fit(sessions);
        assert!((fitted.shape / shape - 1.0).abs() < within, "{fitted:?}");
        assert!((fitted.hazard / hazard - 1.0).abs() < within, "{fitted:?}");
    }

    #[test]
    fn much_evidence_overrules_the_prior() {
        for shape in [0.4, 1.0, 2.0] {
            let truth = Weibull { shape, hazard: 0.3, unit_s: 1800.0 };
            check(&lengths(truth, 2000), shape, 0.3, 0.03);
        }
    }

    #[test]
    fn censored_sessions_count_as_longer_than_they_were_seen() {
        let truth = Weibull { shape: 0.7, hazard: 1.0, unit_s: 1800.0 };
        let cut = |s: &Session| if s.length_s > 2000.0 { Session::censored(2000.0) } else { *s };
        let sessions: Vec<Session> = lengths(truth, 2000).iter().map(cut).collect();
        check(&sessions, 0.7, 1.0, 0.03);
    }

    #[test]
    fn without_evidence_the_prior_stands() {
        assert_eq!(WeibullPrior::VAGUE.fit(&[]), WeibullPrior::VAGUE.centre);
        assert_eq!(WeibullPrior::VAGUE.fit(&[Session::ended(f64::NAN)]), WeibullPrior::VAGUE.centre);
    }

    #[test]
    fn a_little_evidence_moves_the_curve_a_little() {
        let one = WeibullPrior { hazard_strength: 4.0, shape_deviation: 0.2, ..WeibullPrior::VAGUE };
        let fitted = one.fit(&[Session::ended(7200.0)]);
        assert!(fitted.hazard < one.centre.hazard && fitted.hazard > 0.7 * one.centre.hazard, "{fitted:?}");
    }

    #[test]
    fn sessions_of_no_length_leave_every_answer_finite() {
        let fitted = WeibullPrior::VAGUE.fit(&[Session::ended(0.0); 50]);
        for (age_s, t_s) in [(0.0, 1.0), (1e9, 1e9), (0.0, 0.0)] {
            assert!((0.0..=1.0).contains(&fitted.conditional(age_s, t_s)), "{fitted:?}");
        }
    }
}
