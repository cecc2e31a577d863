//! Scenarios of a few machines whose course can be worked out by hand.

use crate::sim::fleet::{Link, PeerSpec};
use crate::sim::scenario::{Arrival, Departure, Scenario, Span, Stay, World};
use crate::sim::{PolicyKind, Run, RunOptions, run};

/// Decodes 10 tokens a second, prefills 100, sends and receives 1000 tokens of KV a second.
pub(super) fn machine(name: &str) -> PeerSpec {
    PeerSpec {
        name: name.to_owned(),
        decode_tps: 10.0,
        shared_step: 0.5,
        prefill_tps: 100.0,
        kv_bytes_per_token: 1000.0,
        kv_tokens: 8000,
        slots: 1,
        link: Link { up_bps: 1e6, down_bps: 1e6, round_trip_s: 0.01 },
    }
}

pub(super) fn stay(start_s: f64, end_s: f64, departure: Departure) -> Stay {
    Stay { start_s, end_s, is_end_seen: true, departure }
}

pub(super) fn for_good() -> Vec<Stay> {
    vec![stay(-10.0, 1e6, Departure::UNKNOWN)]
}

pub(super) fn request(at_s: f64, prompt_tokens: u32, output_tokens: u32) -> Arrival {
    Arrival { at_s, prompt_tokens, output_tokens, estimate_tokens: Some(output_tokens) }
}

/// These machines and requests for 1000 seconds, nothing left out.
pub(super) fn scenario(machines: Vec<(PeerSpec, Vec<Stay>)>, arrivals: Vec<Arrival>) -> Scenario {
    let (peers, stays) = machines.into_iter().unzip();
    let span = Span { duration_s: 1000.0, warmup_s: 0.0, drain_s: 1000.0 };
    Scenario { name: "small".to_owned(), peers, stays, arrivals, span, world: World::default() }
}

pub(super) fn run_of(scenario: &Scenario, policy: PolicyKind) -> Run {
    run(scenario, policy, &RunOptions { keeps_log: true, ..RunOptions::default() }).unwrap()
}

#[track_caller]
pub(super) fn assert_near(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{what}: {found}, not {expected}");
}
