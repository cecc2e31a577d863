//! C: what it costs to move a request that runs, with its source stopped meanwhile.

use super::time::{at_rate, seconds};
use super::{CostParameters, PeerRates};

/// How a context gets to another peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Its KV cache is sent.
    Transfer,
    /// Its ids are sent and prefilled anew.
    Recompute,
}

/// The cheaper way, and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedCost {
    /// Which.
    pub method: Method,
    /// Seconds.
    pub cost_s: f64,
}

/// Seconds to send the KV of `context_tokens` over a link of `link_bps` bytes a second. The source's layout counts.
/// Infinite where the link carries nothing, or the size of the layout is no number.
pub fn transfer_s(source: &PeerRates, link_bps: f64, context_tokens: u32, parameters: &CostParameters) -> f64 {
    let bytes = f64::from(context_tokens) * source.kv_bytes_per_token;
    parameters.transfer_overhead_s + at_rate(bytes, link_bps)
}

/// Seconds for `destination` to prefill `context_tokens`: also what an unplanned move costs.
pub fn recompute_s(destination: &PeerRates, context_tokens: u32, parameters: &CostParameters) -> f64 {
    parameters.recompute_overhead_s + seconds(context_tokens, destination.prefill_tps)
}

/// C_planned: the cheaper of the two; a transfer only where it is strictly so.
pub fn planned_cost(
    source: &PeerRates,
    destination: &PeerRates,
    link_bps: f64,
    context_tokens: u32,
    parameters: &CostParameters,
) -> PlannedCost {
    let transfer_s = transfer_s(source, link_bps, context_tokens, parameters);
    let recompute_s = recompute_s(destination, context_tokens, parameters);
    if transfer_s < recompute_s {
        PlannedCost { method: Method::Transfer, cost_s: transfer_s }
    } else {
        PlannedCost { method: Method::Recompute, cost_s: recompute_s }
    }
}

/// c*: tokens of context from which a transfer is cheaper; none where the link takes longer over a token than the
/// destination's prefill.
///
/// For people to read. It says none too where O_t < O_r and a slow link wins for short contexts: [`planned_cost`] is
/// what decides.
pub fn crossover_tokens(
    source: &PeerRates,
    destination: &PeerRates,
    link_bps: f64,
    parameters: &CostParameters,
) -> Option<f64> {
    let saved_s_per_token = 1.0 / destination.prefill_tps - source.kv_bytes_per_token / link_bps;
    let extra_s = parameters.transfer_overhead_s - parameters.recompute_overhead_s;
    (saved_s_per_token > 0.0).then(|| (extra_s / saved_s_per_token).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 tokens a second of prefill, 10,000 bytes of KV a token.
    const PEER: PeerRates = PeerRates {
        decode_tps: 10.0,
        prefill_tps: 100.0,
        bandwidth_bps: 0.0,
        kv_bytes_per_token: 1e4,
        room_tokens: 4096,
    };

    fn planned(link_bps: f64, context_tokens: u32) -> (Method, f64) {
        let planned = planned_cost(&PEER, &PEER, link_bps, context_tokens, &CostParameters::default());
        (planned.method, planned.cost_s)
    }

    #[test]
    fn contexts_longer_than_the_crossover_are_transferred() {
        // Over 2 MB/s a token takes 5 ms, prefilled 10 ms: 0.3 s of extra overhead is won back after 60 tokens.
        let crossover = crossover_tokens(&PEER, &PEER, 2e6, &CostParameters::default());
        assert!((crossover.unwrap() - 60.0).abs() < 1e-9);
        assert_eq!(planned(2e6, 59).0, Method::Recompute);
        assert_eq!(planned(2e6, 61), (Method::Transfer, 0.5 + 61.0 * 0.005));
    }

    #[test]
    fn over_a_link_slower_than_prefill_every_context_is_recomputed() {
        assert_eq!(crossover_tokens(&PEER, &PEER, 5e5, &CostParameters::default()), None);
        assert_eq!(planned(5e5, 100_000), (Method::Recompute, 1000.2));
        assert_eq!(planned(0.0, 1000), (Method::Recompute, 10.2), "a link that does not carry anything");
    }

    #[test]
    fn a_link_or_a_layout_that_is_no_measure_is_no_bargain() {
        for link_bps in [0.0, -1.0, f64::NAN] {
            assert_eq!(planned(link_bps, 1000), (Method::Recompute, 10.2), "{link_bps} bytes a second");
        }
        let (odd, parameters) = (PeerRates { kv_bytes_per_token: f64::NAN, ..PEER }, CostParameters::default());
        assert_eq!(planned_cost(&odd, &PEER, 1e9, 1000, &parameters).method, Method::Recompute);
    }

    #[test]
    fn an_even_choice_is_a_recompute() {
        let even = CostParameters { recompute_overhead_s: 0.5, ..CostParameters::default() };
        let planned = planned_cost(&PEER, &PEER, 1e9, 0, &even);
        assert_eq!(planned, PlannedCost { method: Method::Recompute, cost_s: 0.5 });
    }
}
