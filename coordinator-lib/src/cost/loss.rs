//! L: what the departure of the peer is expected to cost.

use crate::hazard::Hazard;

/// U: seconds that a departure costs, as a function of when it comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unplanned {
    /// Another peer prefills the context as it is then.
    Rebuild {
        /// Tokens of context now.
        context_tokens: f64,
        /// Tokens of context that decoding adds a second.
        growth_tps: f64,
        /// Seconds until it grows. The queue's wait alone: that prefill comes first is not counted.
        growth_from_s: f64,
        /// Tokens that it grows by at most.
        growth_tokens: f64,
        /// Tokens a second that the other peer prefills.
        rebuild_tps: f64,
        /// Seconds that come on top: restart and the price of the visible stall.
        fixed_s: f64,
    },
    /// There is no other peer: the whole request is lost, whenever the departure comes.
    Restart {
        /// Seconds.
        cost_s: f64,
    },
}

impl Unplanned {
    /// Seconds that a departure in `t_s` seconds costs.
    pub fn cost_s(&self, t_s: f64) -> f64 {
        match *self {
            Self::Rebuild { context_tokens, growth_tps, growth_from_s, growth_tokens, rebuild_tps, fixed_s } => {
                let grown_tokens = (growth_tps * (t_s - growth_from_s).max(0.0)).min(growth_tokens);
                (context_tokens + grown_tokens) / rebuild_tps + fixed_s
            }
            Self::Restart { cost_s } => cost_s,
        }
    }
}

/// The expectation of `unplanned` over departures within `time_s` seconds.
///
/// A sum over `cells` equal cells: the probability that the peer leaves within the cell (exact, from the curve), times
/// the cost at its middle. Departures after `time_s` cost nothing. 0 where `time_s` is not a positive, finite time: E
/// is then T itself.
pub fn expected_loss_s(hazard: &Hazard<'_>, time_s: f64, cells: u32, unplanned: &Unplanned) -> f64 {
    if !(time_s > 0.0 && time_s.is_finite()) {
        return 0.0;
    }
    let width_s = time_s / f64::from(cells);
    let edge_s = |edge: u32| if edge == cells { time_s } else { f64::from(edge) * width_s };
    let mut loss_s = 0.0;
    let (mut from_s, mut survival) = (0.0, hazard.survival(0.0));
    for edge in 1..=cells {
        let to_s = edge_s(edge);
        let survival_then = hazard.survival(to_s);
        loss_s += (survival - survival_then) * unplanned.cost_s(f64::midpoint(from_s, to_s));
        (from_s, survival) = (to_s, survival_then);
    }
    loss_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::{KaplanMeier, Session};

    const REBUILD: Unplanned = Unplanned::Rebuild {
        context_tokens: 100.0,
        growth_tps: 10.0,
        growth_from_s: 2.0,
        growth_tokens: 50.0,
        rebuild_tps: 100.0,
        fixed_s: 3.0,
    };

    #[test]
    fn the_context_grows_from_the_end_of_the_wait_to_the_end_of_the_request() {
        for (t_s, cost_s) in [(0.0, 4.0), (2.0, 4.0), (3.0, 4.1), (7.0, 4.5), (100.0, 4.5)] {
            assert!((REBUILD.cost_s(t_s) - cost_s).abs() < 1e-12, "at {t_s}");
        }
    }

    #[test]
    fn a_certain_departure_costs_what_it_costs_in_the_middle_of_its_cell() {
        let curve = KaplanMeier::fit(&[Session::ended(5.2)]);
        let hazard = Hazard { curve: &curve, age_s: 0.0 };
        // Cells of 1 s: it leaves in (5, 6], and the floor of the curve is all that is left.
        let loss_s = expected_loss_s(&hazard, 16.0, 16, &REBUILD);
        assert!((loss_s - REBUILD.cost_s(5.5)).abs() < 1e-7, "{loss_s}");
        assert_eq!(expected_loss_s(&hazard, 5.0, 16, &REBUILD), 0.0, "a departure after the end costs nothing");
    }

    #[test]
    fn no_time_no_loss() {
        let curve = KaplanMeier::fit(&[]);
        let hazard = Hazard { curve: &curve, age_s: 0.0 };
        for time_s in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            assert_eq!(expected_loss_s(&hazard, time_s, 16, &REBUILD), 0.0);
        }
    }
}
