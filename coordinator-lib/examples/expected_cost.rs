//! How long one expected cost takes: microseconds for E (16 cells), with a digest's curve and with a fitted one, for a
//! placement over a fleet, and for fitting a peer's own curve into its digest.
//!
//! Medians of several rounds, as one line of `name value unit` each.
#![expect(clippy::disallowed_types, reason = "what is measured here is time")]

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use idlewild_coordinator::cost::{CostParameters, Path, PeerRates, Residual, Situation, Work, terms};
use idlewild_coordinator::hazard::{DigestCurve, Hazard, KaplanMeier, Session, Survival, quantise_sessions};
use idlewild_coordinator::policy::overlapped::{
    Candidate, Decision, Host, Leaving, OverlappedParameters, RunningRequest, decide,
};
use idlewild_coordinator::policy::{Fleet, FleetPeer, HazardAwarePolicy, MigrationLimits, Policy, Running};

/// Rounds of which the median counts.
const ROUNDS: usize = 15;

/// Sessions of a peer that has been in use for a year or two.
const SESSIONS: u32 = 1000;

/// Peers of a large household, or of a small lab.
const PEERS: usize = 20;

const RATES: PeerRates = PeerRates {
    decode_tps: 40.0,
    prefill_tps: 250.0,
    bandwidth_bps: 1.2e8,
    kv_bytes_per_token: 23_053.0,
    room_tokens: 8192,
};

fn main() -> io::Result<()> {
    let over: Vec<Session> = (1..=SESSIONS).map(|k| Session::ended(f64::from(k * k % 7919) + 1.0)).collect();
    let (fitted, digest) = (KaplanMeier::fit(&over), DigestCurve::new(&quantise_sessions(&over, 600.0)));
    let work = Work::fresh(1000, 400);
    let running = Running { current: 0, work: Work::running(1000, 400, 100), own_load_s: 7.5, hops: 0 };
    let blocking = HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default());
    let fleet = fleet_of(&digest);
    let mut out = io::stdout().lock();
    let mut print = |name: &str, micros: f64| writeln!(out, "{name} {micros:.3} us");
    print("E with a digest's curve", micros_each(10_000, || expected_s(&digest, &work)))?;
    print("E with a curve of 1000 sessions", micros_each(10_000, || expected_s(&fitted, &work)))?;
    for policy in [HazardAwarePolicy::default(), blocking] {
        let name = format!("placement over 20 peers, {}", Policy::<usize>::name(&policy));
        print(&name, micros_each(500, || policy.place(&fleet, &work)))?;
    }
    print("should_migrate over 20 peers", micros_each(500, || blocking.should_migrate(&fleet, &running)))?;
    print("decision over 20 peers", micros_each(500, || decide_on(&digest)))?;
    print("digest of 1000 sessions", micros_each(50, || quantise_sessions(&over, 600.0)))
}

fn expected_s(curve: &dyn Survival, work: &Work) -> f64 {
    let hazard = Hazard { curve, age_s: 1.0 };
    let situation = Situation { rates: &RATES, hazard, wait_s: 2.0, rebuild_tps: Some(250.0) };
    terms(black_box(&situation), black_box(work), &CostParameters::default()).expected_s()
}

fn fleet_of(curve: &dyn Survival) -> Fleet<'_, usize> {
    let peer =
        |id| FleetPeer { id, rates: RATES, load_s: 7.5, hazard: Hazard { curve, age_s: 1.0 }, known_remaining_s: None };
    Fleet::new((0..PEERS).map(peer).collect())
}

/// What the corrected rule makes of a running request that could go to any of the others.
fn decide_on(curve: &dyn Survival) -> Decision<usize> {
    let host = |id| Host::new(id, RATES, Hazard { curve, age_s: 1.0 });
    let path = Path { goodput_bps: 1e7, round_trip_s: 0.003, budget_bytes: None, has_same_layout: true };
    let candidates: Vec<_> = (1..PEERS).map(|id| Candidate { host: host(id), path: Some(path) }).collect();
    let request = RunningRequest {
        source: host(0),
        context_tokens: 1100,
        residual: Residual::of([60.0, 150.0, 280.0, 450.0, 900.0]),
        hops: 0,
        leaving: Leaving::Unannounced,
        standby: None,
        candidates: &candidates,
    };
    decide(black_box(&request), &OverlappedParameters::default())
}

/// The median over [`ROUNDS`] of the mean over `times` calls.
fn micros_each<T>(times: u32, call: impl Fn() -> T) -> f64 {
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        let began = Instant::now();
        for _ in 0..times {
            black_box(call());
        }
        *round = began.elapsed().as_secs_f64() * 1e6 / f64::from(times);
    }
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
