//! What the four ways promise, against a simulation in small steps of time.

use proptest::prelude::*;

use super::Overheads;
use super::preparation::{Preparation, Route, Way, hybrid, ids_only, pre_copy, round_s, stopped_split};
use super::takeover::{Fixed, Rebuild, Takeover};

/// Seconds of a step.
const STEP_S: f64 = 1e-4;

const OVERHEADS: Overheads = Overheads::ASSUMED;

fn routes() -> impl Iterator<Item = Route> {
    let contexts = [0.0, 40.0, 500.0, 8000.0];
    let rates = [(10.0, 150.0), (40.0, 250.0), (5.0, 1500.0), (0.0, 90.0)];
    let links_tps = [0.0, 30.0, 200.0, 5000.0];
    contexts.into_iter().flat_map(move |context_tokens| {
        rates.into_iter().flat_map(move |(decode_tps, prefill_tps)| {
            links_tps.into_iter().map(move |kv_tps| Route {
                context_tokens,
                decode_tps,
                prefill_tps,
                kv_tps,
                kv_bytes_per_token: 2e4,
                round_trip_s: 0.004,
                round_s: 0.05,
            })
        })
    })
}

/// Steps time until the tokens that have arrived are all that exist. Prefill and KV begin after their delays.
fn simulate_streams(route: &Route, prefill_from_s: f64, kv_from_s: f64, prefill_tps: f64) -> (f64, f64, f64) {
    let (mut t_s, mut exist, mut prefilled, mut sent) = (0.0, route.context_tokens, 0.0, 0.0);
    while prefilled + sent < exist || (t_s < prefill_from_s && t_s < kv_from_s) {
        t_s += STEP_S;
        exist += route.decode_tps * STEP_S;
        prefilled += if t_s > prefill_from_s { prefill_tps * STEP_S } else { 0.0 };
        sent += if t_s > kv_from_s { route.kv_tps * STEP_S } else { 0.0 };
    }
    (t_s, prefilled, sent)
}

/// Steps time through rounds, each over the tokens that exist when it begins, until the lag is within its limit.
fn simulate_rounds(route: &Route) -> (f64, f64) {
    let (mut t_s, mut exist, mut held) = (0.0, route.context_tokens, 0.0);
    let mut overhead_s = OVERHEADS.recompute_s;
    loop {
        let (target, mut waited_s) = (exist, 0.0);
        while held < target || waited_s < overhead_s {
            t_s += STEP_S;
            exist += route.decode_tps * STEP_S;
            if waited_s < overhead_s { waited_s += STEP_S } else { held += route.prefill_tps * STEP_S }
        }
        held = target;
        overhead_s = route.round_s;
        if exist - held <= OVERHEADS.lag_limit_tokens(route.decode_tps) {
            return (t_s, exist - held);
        }
    }
}

fn assert_close(what: &str, got: f64, simulated: f64, route: &Route) {
    // A step may carry half a token.
    let tolerance = if what == "bytes" { 1.0 } else { 1e-3 };
    assert!((got - simulated).abs() < 2e-3 * simulated + tolerance, "{what}: {got}, simulated {simulated}, {route:?}");
}

#[test]
fn ids_are_ready_when_a_simulation_of_the_rounds_says() {
    for route in routes() {
        let ids = ids_only(&route, &OVERHEADS).unwrap();
        let (ready_s, lag_tokens) = simulate_rounds(&route);
        assert_close("W", ids.ready_s, ready_s, &route);
        assert_close("S", ids.stall_s, 0.1 + 0.004 + lag_tokens / route.prefill_tps, &route);
        // (c/p)/(1 - rho): what the rounds come to, but for their overheads and the lag that is left.
        let rho = route.decode_tps / route.prefill_tps;
        let limit_s = 0.2 + route.context_tokens / route.prefill_tps / (1.0 - rho);
        assert!(ids.ready_s < limit_s + 0.5, "{} and {limit_s}: {route:?}", ids.ready_s);
    }
}

#[test]
fn kv_is_ready_when_a_simulation_of_the_stream_says() {
    for route in routes().filter(|route| route.kv_tps > route.decode_tps) {
        let copy = pre_copy(&route, &OVERHEADS).unwrap();
        let (ready_s, _, sent_tokens) = simulate_streams(&route, f64::INFINITY, OVERHEADS.transfer_s, 0.0);
        assert_close("W", copy.ready_s, ready_s, &route);
        assert_close("bytes", copy.bytes / 2e4, sent_tokens, &route);
        assert_eq!(copy.destination_work_s, 0.0);
    }
}

#[test]
fn a_hybrid_is_ready_when_a_simulation_of_both_streams_says() {
    for route in routes().filter(|route| route.kv_tps > 0.0) {
        let both = hybrid(&route, &OVERHEADS).unwrap();
        let (ready_s, prefilled, sent) =
            simulate_streams(&route, OVERHEADS.recompute_s, OVERHEADS.recompute_s, route.prefill_tps);
        assert_close("W", both.ready_s, ready_s, &route);
        assert_close("work", both.destination_work_s, prefilled / route.prefill_tps, &route);
        assert_close("bytes", both.bytes / 2e4, sent, &route);
    }
}

#[test]
fn a_stopped_source_stalls_for_as_long_as_a_simulation_of_both_ends_says() {
    for route in routes() {
        let route = Route { decode_tps: 0.0, ..route };
        let split = stopped_split(&route, &OVERHEADS);
        // A link that carries nothing never begins.
        let kv_from_s = if route.kv_tps > 0.0 { OVERHEADS.transfer_s } else { f64::INFINITY };
        let (stall_s, prefilled, sent) = simulate_streams(&route, OVERHEADS.recompute_s, kv_from_s, route.prefill_tps);
        assert_close("S", split.stall_s, stall_s, &route);
        assert_close("work", split.destination_work_s, prefilled / route.prefill_tps, &route);
        assert_close("bytes", split.bytes / 2e4, sent, &route);
    }
}

#[test]
fn another_round_costs_what_a_step_takes_before_its_tokens() {
    assert!((round_s(20.0, 100.0) - 0.04).abs() < 1e-12);
    assert_eq!(round_s(100.0, 20.0), 0.0, "never a gain");
    assert_eq!((round_s(f64::NAN, 20.0), round_s(20.0, f64::NAN)), (0.0, 0.0));
    let slow = Route { round_s: 0.5, ..routes().nth(52).unwrap() };
    let quick = Route { round_s: 0.01, ..slow };
    let [slow, quick] = [slow, quick].map(|route| ids_only(&route, &OVERHEADS).unwrap());
    assert!(slow.ready_s > quick.ready_s + 0.5, "{} and {}", slow.ready_s, quick.ready_s);
}

#[test]
fn the_stall_hardly_depends_on_the_context() {
    let stalls_s = |way: fn(&Route, &Overheads) -> Option<Preparation>, context_tokens: f64| {
        let route = Route {
            context_tokens,
            decode_tps: 10.0,
            prefill_tps: 150.0,
            kv_tps: 400.0,
            kv_bytes_per_token: 2e4,
            round_trip_s: 0.004,
            round_s: 0.05,
        };
        way(&route, &OVERHEADS).unwrap().stall_s
    };
    for way in [ids_only, pre_copy, hybrid] {
        for context_tokens in [100.0, 1000.0, 30_000.0] {
            let stall_s = stalls_s(way, context_tokens);
            assert!((0.1..0.35).contains(&stall_s), "{stall_s} at {context_tokens}");
        }
    }
}

#[test]
fn what_cannot_keep_up_is_never_ready() {
    let fast = Route {
        context_tokens: 100.0,
        decode_tps: 200.0,
        prefill_tps: 150.0,
        kv_tps: 40.0,
        kv_bytes_per_token: 2e4,
        round_trip_s: 0.0,
        round_s: 0.05,
    };
    assert_eq!(ids_only(&fast, &OVERHEADS), None);
    assert_eq!(pre_copy(&fast, &OVERHEADS), None);
    assert_eq!(hybrid(&fast, &OVERHEADS), None);
    assert_eq!(stopped_split(&fast, &OVERHEADS).way, Way::StoppedSplit, "a stopped source is always caught up with");
}

fn any_route() -> impl Strategy<Value = Route> {
    let tokens = (0.0..50_000.0_f64, 0.0..200.0_f64, 1.0..5000.0_f64, 1.0..1e6_f64);
    tokens.prop_map(|(context_tokens, decode_tps, prefill_tps, kv_tps)| Route {
        context_tokens,
        decode_tps,
        prefill_tps,
        kv_tps,
        kv_bytes_per_token: 1e4,
        round_trip_s: 0.01,
        round_s: 0.05,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_preparation_lacks_more_than_the_context_or_makes_a_departure_worse(
        route in any_route(), t_s in 0.0..500.0_f64, early_s in 0.0..1.0_f64,
    ) {
                let fixed = Fixed { is_announced: false, sigma_s: 2.0, overheads: &OVERHEADS };
        let rebuild = Rebuild { prefill_tps: route.prefill_tps, decode_tps: 10.0, wait_s: 0.0 };
        let cold = Takeover::cold(route.context_tokens, route.decode_tps, &rebuild, 2.0, &OVERHEADS);
        for way in [ids_only, pre_copy, hybrid] {
            let Some(preparation) = way(&route, &OVERHEADS) else { continue };
            let part = Takeover::preparing(&route, &preparation, fixed);
            for t_s in [0.0, early_s, t_s] {
                let missing_tokens = (part.cost_s(t_s) - part.fixed_s) * route.prefill_tps;
                let all_tokens = route.context_tokens + route.decode_tps * t_s;
                prop_assert!(missing_tokens <= all_tokens + 1e-6, "{missing_tokens} of {all_tokens}: {part:?}");
                let worst_s = cold.cost_s(t_s) + OVERHEADS.hand_off_s;
                prop_assert!(part.cost_s(t_s) <= worst_s + 1e-9, "{worst_s}: {part:?}");
            }
        }
    }
}
