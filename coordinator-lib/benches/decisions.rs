//! How long one decision takes: E, a placement, a round.

mod swarm;

use core::hint::black_box;
use std::time::Duration;

use divan::Bencher;
use idlewild_coordinator::coordinator::Coordinator;
use idlewild_coordinator::cost::{CostParameters, PeerRates, Situation, Work, terms};
use idlewild_coordinator::hazard::{DigestCurve, Hazard};
use idlewild_protocol::{QuantisedSurvival, Term};
use swarm::{Numbers, leader_of, peer, question, run_round, view_of, view_of_twins};

fn main() {
    divan::main();
}

/// E = T + L over 16 cells, with the curve of a digest.
#[divan::bench]
fn expected_cost(bencher: Bencher<'_, '_>) {
    let curve = DigestCurve::new(&QuantisedSurvival::of(|t_s| (-(t_s / 600.0).powf(0.7)).exp()));
    let rates = PeerRates {
        decode_tps: 40.0,
        prefill_tps: 250.0,
        bandwidth_bps: 1e8,
        kv_bytes_per_token: 28_672.0,
        room_tokens: 8192,
    };
    let hazard = Hazard { curve: &curve, age_s: 0.7 };
    let situation = Situation { rates: &rates, hazard, wait_s: 1.0, rebuild_tps: Some(300.0) };
    let (work, parameters) = (Work::fresh(1000, 400), CostParameters::default());
    bencher.bench_local(|| terms(black_box(&situation), black_box(&work), &parameters).expected_s());
}

/// A placement by a coordinator that has just placed others.
#[divan::bench(args = [10, 100, 1000, 10_000])]
fn placement(bencher: Bencher<'_, '_>, peers: u64) {
    let view = view_of(peers);
    let (mut coordinator, mut numbers, mut n) = (Coordinator::default(), Numbers::new(1), 0);
    bencher.bench_local(|| {
        n += 1;
        let now = Duration::from_secs(2) + Duration::from_millis(20 * (n % 500));
        coordinator.place(now, &view, Term(1), peer(1), &question(&mut numbers, n))
    });
}

/// The hardest case for a search: peers that are alike.
#[divan::bench(args = [10, 100, 1000, 10_000])]
fn placement_among_twins(bencher: Bencher<'_, '_>, peers: u64) {
    let view = view_of_twins(peers);
    let model = view.peers().next().and_then(|(_, known)| Some(known.digest.as_ref()?.models[0].model));
    let (mut coordinator, mut numbers, mut n) = (Coordinator::default(), Numbers::new(1), 0);
    bencher.bench_local(|| {
        n += 1;
        let now = Duration::from_secs(2) + Duration::from_millis(20 * (n % 500));
        let asked = question(&mut numbers, n);
        let asked = idlewild_protocol::PlaceRequest { model: model.unwrap_or(asked.model), ..asked };
        coordinator.place(now, &view, Term(1), peer(1), &asked)
    });
}

/// A full round: every running request is looked at.
#[divan::bench(args = [100, 1000, 10_000], sample_count = 10, sample_size = 1)]
fn round(bencher: Bencher<'_, '_>, peers: u64) {
    let view = view_of(peers);
    let leader = leader_of(&view, peers);
    bencher.with_inputs(|| leader.clone()).bench_local_values(|mut leader| run_round(&mut leader, &view));
}
