//! What several formats describe alike: nodes, their history, loads, a request.

use std::collections::BTreeMap;

use idlewild_coordinator::cost::{CostParameters, PeerRates};
use idlewild_coordinator::hazard::{HazardLog, Session};
use idlewild_coordinator::policy::{Fleet, FleetPeer, MigrationLimits};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Rates {
    decode_tps: f64,
    prefill_tps: f64,
    bandwidth_bps: f64,
    kv_bytes_per_token: f64,
    mem_tokens: u32,
}

impl Rates {
    pub(super) fn rates(&self) -> PeerRates {
        PeerRates {
            decode_tps: self.decode_tps,
            prefill_tps: self.prefill_tps,
            bandwidth_bps: self.bandwidth_bps,
            kv_bytes_per_token: self.kv_bytes_per_token,
            room_tokens: self.mem_tokens,
        }
    }
}

#[derive(Deserialize)]
struct Node {
    name: String,
    #[serde(flatten)]
    rates: Rates,
}

#[derive(Deserialize)]
struct History {
    name: String,
    sessions: Vec<f64>,
    current_start: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Request {
    pub(super) prompt_tokens: u32,
    pub(super) expected_output_tokens: u32,
}

/// Each format has those that it needs; one that is missing where it is needed makes the case unreadable.
#[derive(Deserialize)]
pub(super) struct Parameters {
    slo_penalty: f64,
    recompute_overhead: f64,
    transfer_overhead: f64,
    min_sessions: usize,
    pub(super) integral_steps: Option<u32>,
    #[serde(flatten)]
    pub(super) limits: Option<Limits>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Limits {
    hysteresis: f64,
    min_remaining: f64,
    max_hops: u32,
}

impl Limits {
    pub(super) fn limits(self) -> MigrationLimits {
        MigrationLimits { hysteresis_s: self.hysteresis, min_remaining_s: self.min_remaining, max_hops: self.max_hops }
    }
}

/// The part that cost_components, place and should_migrate share; flattened into each.
#[derive(Deserialize)]
pub(super) struct Scene {
    pub(super) now: f64,
    pub(super) params: Parameters,
    nodes: Vec<Node>,
    history: Vec<History>,
    loads: BTreeMap<String, f64>,
    pub(super) request: Request,
}

impl Scene {
    pub(super) fn parameters(&self, cells: u32) -> CostParameters {
        CostParameters {
            stall_penalty_s: self.params.slo_penalty,
            recompute_overhead_s: self.params.recompute_overhead,
            transfer_overhead_s: self.params.transfer_overhead,
            cells,
        }
    }

    /// The history, fitted now.
    pub(super) fn log(&self) -> HazardLog<String> {
        let mut log = self.unfitted_log();
        log.refit(self.now);
        log
    }

    pub(super) fn unfitted_log(&self) -> HazardLog<String> {
        let mut log = HazardLog::new(self.params.min_sessions);
        for History { name, sessions, current_start } in &self.history {
            for &length_s in sessions {
                log.record(name.clone(), Session::ended(length_s));
            }
            if let Some(began_s) = current_start {
                log.join(*began_s, name.clone());
            }
        }
        log
    }

    pub(super) fn fleet<'a>(&'a self, log: &'a HazardLog<String>) -> Fleet<'a, &'a str> {
        let peer = |node: &'a Node| FleetPeer {
            id: node.name.as_str(),
            rates: node.rates.rates(),
            load_s: self.loads.get(&node.name).copied().unwrap_or(0.0),
            hazard: log.node(self.now, &node.name).hazard(),
            known_remaining_s: None,
        };
        Fleet::new(self.nodes.iter().map(peer).collect())
    }
}
