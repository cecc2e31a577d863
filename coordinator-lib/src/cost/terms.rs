//! E = T + L of one request on one peer.

use super::{PeerRates, Unplanned, Work, expected_loss_s, service_s};
use crate::hazard::Hazard;

/// What costs, wherever it happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostParameters {
    /// Sigma: the price of a visible unplanned stall, in seconds.
    pub stall_penalty_s: f64,
    /// O_r: seconds that a recompute takes beside its prefill.
    pub recompute_overhead_s: f64,
    /// O_t: seconds that a transfer of KV takes beside its bytes.
    pub transfer_overhead_s: f64,
    /// Cells of the sum that stands for the integral of the loss.
    pub cells: u32,
}

impl Default for CostParameters {
    /// The rule as given. The overheads are what the reference assumes; a live agent measures its own.
    fn default() -> Self {
        Self { stall_penalty_s: 2.0, recompute_overhead_s: 0.2, transfer_overhead_s: 0.5, cells: 16 }
    }
}

/// One peer as one request finds it.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The peer's rates.
    pub rates: &'a PeerRates,
    /// Its chance to stay.
    pub hazard: Hazard<'a>,
    /// Seconds before the request starts there.
    pub wait_s: f64,
    /// Tokens a second that the peer which would take over prefills; none where there is no other peer.
    pub rebuild_tps: Option<f64>,
}

/// What a request is expected to cost on a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Seconds before it starts.
    pub wait_s: f64,
    /// Seconds of prefill and decoding.
    pub service_s: f64,
    /// L: expected seconds lost to the peer's departure.
    pub loss_s: f64,
    /// The probability that the peer leaves before the request is done.
    pub leave_probability: f64,
    /// Seconds that it puts on those that run there already; 0 in the rule as given.
    pub slowdown_s: f64,
}

impl Terms {
    /// T: seconds until the request is done if the peer stays.
    pub fn time_s(&self) -> f64 {
        self.wait_s + self.service_s
    }

    /// E, and what others pay: what placement compares.
    pub fn expected_s(&self) -> f64 {
        self.time_s() + self.loss_s + self.slowdown_s
    }
}

/// The terms of `work` in `situation`.
pub fn terms(situation: &Situation<'_>, work: &Work, parameters: &CostParameters) -> Terms {
    let service_s = service_s(situation.rates, work);
    let time_s = situation.wait_s + service_s;
    let unplanned = unplanned(situation, work, time_s, parameters);
    Terms {
        wait_s: situation.wait_s,
        service_s,
        loss_s: expected_loss_s(&situation.hazard, time_s, parameters.cells, &unplanned),
        leave_probability: situation.hazard.leave_probability(time_s),
        slowdown_s: 0.0,
    }
}

fn unplanned(situation: &Situation<'_>, work: &Work, time_s: f64, parameters: &CostParameters) -> Unplanned {
    match situation.rebuild_tps {
        Some(rebuild_tps) => Unplanned::Rebuild {
            context_tokens: f64::from(work.context_tokens),
            growth_tps: situation.rates.decode_tps,
            growth_from_s: situation.wait_s,
            growth_tokens: f64::from(work.remaining_tokens()),
            rebuild_tps,
            fixed_s: parameters.recompute_overhead_s + parameters.stall_penalty_s,
        },
        None => Unplanned::Restart { cost_s: time_s + parameters.stall_penalty_s },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::{KaplanMeier, Session};

    const RATES: PeerRates = PeerRates {
        decode_tps: 10.0,
        prefill_tps: 100.0,
        bandwidth_bps: 1e6,
        kv_bytes_per_token: 1e4,
        room_tokens: 4096,
    };

    #[test]
    fn a_departure_that_is_certain_adds_its_whole_cost() {
        let curve = KaplanMeier::fit(&[Session::ended(6.5)]);
        let hazard = Hazard { curve: &curve, age_s: 0.0 };
        // T = 2 + 1 + 5 s, cells of 0.5 s: it leaves within (6, 6.5], and the context has grown since 2.
        let cases = [
            ("another peer rebuilds", Some(50.0), (100.0 + 10.0 * (6.25 - 2.0)) / 50.0 + 0.2 + 2.0),
            ("nobody else", None, 8.0 + 2.0),
        ];
        for (name, rebuild_tps, loss_s) in cases {
            let situation = Situation { rates: &RATES, hazard, wait_s: 2.0, rebuild_tps };
            let terms = terms(&situation, &Work::fresh(100, 50), &CostParameters::default());
            assert!((terms.time_s() - 8.0).abs() < 1e-12, "{name}: {terms:?}");
            assert!((terms.loss_s - loss_s).abs() < 1e-7, "{name}: {terms:?}, expected {loss_s}");
            assert!((terms.leave_probability - 1.0).abs() < 1e-8, "{name}: {terms:?}");
        }
    }
}
