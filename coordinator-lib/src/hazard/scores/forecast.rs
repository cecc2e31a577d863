//! The forecast of one live session, and what became of it.

use super::super::Hazard;
use super::Binary;

/// Seconds from the question at which a forecast is scored: 30 s, 2, 5 and 15 min, 1 h.
pub const EDGES_S: [f64; 5] = [30.0, 120.0, 300.0, 900.0, 3600.0];

/// The least probability that a log loss reckons with: what was called impossible, and happened, costs 13.8 and not
/// infinitely much.
const LEAST_PROBABILITY: f64 = 1e-6;

/// What became of a session after the question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Seconds that it went on, as far as was seen.
    pub stayed_s: f64,
    /// Whether the peer left then; otherwise nobody saw what came later.
    pub left: bool,
}

impl Outcome {
    /// Whether the peer left within `horizon_s`; none where nobody can tell.
    pub fn left_within(&self, horizon_s: f64) -> Option<bool> {
        let over = self.stayed_s <= horizon_s;
        if over && !self.left { None } else { Some(over) }
    }
}

/// The probability of staying until each of [`EDGES_S`], with what happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// In [0, 1], never rising.
    pub stays: [f64; EDGES_S.len()],
    /// What happened.
    pub outcome: Outcome,
}

impl Forecast {
    /// What `hazard` forecasts. Values that are no probabilities are brought into [0, 1], a rise is levelled.
    pub fn new(hazard: &Hazard<'_>, outcome: Outcome) -> Self {
        let mut least = 1.0;
        let stays = EDGES_S.map(|edge_s| {
            let stays = hazard.survival(edge_s);
            // What is no number is no promise.
            least = if stays.is_nan() { 0.0 } else { stays.clamp(0.0, least) };
            least
        });
        Self { stays, outcome }
    }

    /// Minus the logarithm of the probability of what was seen, in nats: that the departure fell between the two edges
    /// about it (the last interval has no end), or that the peer was still there at the last edge up to which it was
    /// seen.
    pub fn log_loss(&self) -> f64 {
        let passed = EDGES_S.partition_point(|&edge_s| edge_s < self.outcome.stayed_s);
        let before = if passed == 0 { 1.0 } else { self.stays[passed - 1] };
        let after = if self.outcome.left { self.stays.get(passed).copied().unwrap_or(0.0) } else { 0.0 };
        -(before - after).max(LEAST_PROBABILITY).ln()
    }

    /// The forecast of leaving within the edge of this index; none where nobody saw whether it did, or there is no such
    /// edge.
    pub fn leaves_within(&self, edge: usize) -> Option<Binary> {
        let (&horizon_s, &stays) = (EDGES_S.get(edge)?, self.stays.get(edge)?);
        let happened = self.outcome.left_within(horizon_s)?;
        Some(Binary { probability: 1.0 - stays, happened })
    }
}

/// The mean log loss in nats; 0 of no forecasts.
pub fn log_loss(forecasts: &[Forecast]) -> f64 {
    let sum: f64 = forecasts.iter().map(Forecast::log_loss).sum();
    sum / forecasts.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::{PieceCurve, Segment};
    use super::*;

    const STAYS: [f64; 5] = [0.9, 0.8, 0.6, 0.5, 0.25];

    fn check(stayed_s: f64, left: bool, probability: f64) {
        let loss = Forecast { stays: STAYS, outcome: Outcome { stayed_s, left } }.log_loss();
        assert!((loss + f64::ln(probability)).abs() < 1e-12, "{stayed_s} {left}: {loss}");
    }

    #[test]
    fn a_departure_costs_the_probability_of_the_interval_in_which_it_fell() {
        for (stayed_s, probability) in
            [(0.0, 0.1), (30.0, 0.1), (30.1, 0.1), (121.0, 0.2), (899.0, 0.1), (3600.0, 0.25), (3601.0, 0.25)]
        {
            check(stayed_s, true, probability);
        }
    }

    #[test]
    fn a_censored_session_costs_the_probability_of_the_last_edge_that_it_was_seen_to_pass() {
        for (stayed_s, probability) in [(10.0, 1.0), (31.0, 0.9), (900.5, 0.5), (1e9, 0.25)] {
            check(stayed_s, false, probability);
        }
    }

    #[test]
    fn what_was_called_impossible_costs_much_but_not_all() {
        let sure = Forecast { stays: [1.0; 5], outcome: Outcome { stayed_s: 10.0, left: true } };
        assert!((sure.log_loss() - 13.8155).abs() < 1e-3);
        assert!((log_loss(&[sure, sure]) - 13.8155).abs() < 1e-3);
        assert_eq!(log_loss(&[]), 0.0);
    }

    #[test]
    fn a_forecast_of_a_horizon_is_there_where_its_end_was_seen() {
        let outcome = Outcome { stayed_s: 200.0, left: false };
        let forecast = Forecast { stays: STAYS, outcome };
        let leaves = forecast.leaves_within(1).map(|binary| (binary.probability, binary.happened));
        assert!(leaves.is_some_and(|(probability, happened)| (probability - 0.2).abs() < 1e-12 && !happened));
        assert!(forecast.leaves_within(2).is_none() && forecast.leaves_within(9).is_none());
        let outcome = Outcome { stayed_s: 200.0, left: true };
        assert!(Forecast { stays: STAYS, outcome }.leaves_within(2).is_some_and(|binary| binary.happened));
    }

    #[test]
    fn a_curve_is_forecast_as_it_is() {
        let mut curve = PieceCurve::default();
        curve.push(Segment { length_s: 10.0, rate_per_s: 0.001 });
        let hazard = Hazard { curve: &curve, age_s: 5.0 };
        let forecast = Forecast::new(&hazard, Outcome { stayed_s: 1.0, left: true });
        assert!(forecast.stays.iter().zip(EDGES_S).all(|(stays, s)| (stays - (-0.001 * s).exp()).abs() < 1e-12));
    }
}
