//! What must hold of hazards, costs and decisions, whatever the history.

use idlewild_coordinator::cost::{
    CostParameters, PeerRates, Situation, Terms, Unplanned, Work, expected_loss_s, terms,
};
use idlewild_coordinator::hazard::{DigestCurve, Hazard, KaplanMeier, Session, Survival, quantise, quantise_sessions};
use idlewild_coordinator::policy::{
    Assessment, Fleet, FleetPeer, HazardAwarePolicy, MoveDecision, OraclePlacement, Policy, Running,
};
use idlewild_protocol::HORIZONS_S;
use proptest::collection::vec;
use proptest::prelude::*;

/// Rounding may lift a value that is constant by this much.
const ROUNDING: f64 = 1e-12;

/// Lengths from a millisecond to four days, log-spaced.
fn seconds() -> impl Strategy<Value = f64> {
    (-3.0..5.5_f64).prop_map(|exponent| 10.0_f64.powf(exponent))
}

fn sessions() -> impl Strategy<Value = Vec<Session>> {
    vec((seconds(), any::<bool>()).prop_map(|(length_s, observed)| Session { length_s, observed }), 0..40)
}

fn rates() -> impl Strategy<Value = PeerRates> {
    let ranges = (1.0..200.0_f64, 10.0..5000.0_f64, 1e5..1e10_f64, 1e3..5e5_f64, 512..131_072_u32);
    ranges.prop_map(|(decode_tps, prefill_tps, bandwidth_bps, kv_bytes_per_token, room_tokens)| PeerRates {
        decode_tps,
        prefill_tps,
        bandwidth_bps,
        kv_bytes_per_token,
        room_tokens,
    })
}

fn work() -> impl Strategy<Value = Work> {
    (0..20_000_u32, 0..6000_u32, 0..7000_u32).prop_map(|(prompt, expected, done)| Work::running(prompt, expected, done))
}

/// Ages and times at which a curve is looked at: its own steps, just before them, and any.
fn instants(curve: &KaplanMeier, others: &[f64]) -> Vec<f64> {
    let steps = curve.times_s().iter().flat_map(|&t_s| [t_s.next_down(), t_s]);
    let mut all: Vec<f64> = [0.0].into_iter().chain(steps).chain(others.iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Whether `survival` is 1 at 0, within [0, 1], and never rises over `instants`.
fn is_survival_function(survival: impl Fn(f64) -> f64, instants: &[f64]) -> Result<(), TestCaseError> {
    prop_assert!((survival(0.0) - 1.0).abs() <= ROUNDING, "S(0) = {}", survival(0.0));
    let mut before = 1.0;
    for &t_s in instants {
        let now = survival(t_s);
        prop_assert!((0.0..=1.0 + ROUNDING).contains(&now), "S({t_s}) = {now}");
        prop_assert!(now <= before + ROUNDING, "S rises from {before} to {now} at {t_s}");
        before = now;
    }
    Ok(())
}

/// A curve whose hazard is `times` that of another.
#[derive(Debug)]
struct Proportional<'a> {
    curve: &'a dyn Survival,
    times: f64,
}

impl Survival for Proportional<'_> {
    fn survival(&self, t_s: f64) -> f64 {
        self.curve.survival(t_s).powf(self.times)
    }
}

/// A constant hazard.
#[derive(Debug)]
struct Exponential {
    per_s: f64,
}

impl Survival for Exponential {
    fn survival(&self, t_s: f64) -> f64 {
        (-self.per_s * t_s).exp()
    }
}

proptest! {
    #[test]
    fn survival_given_any_age_is_a_survival_function(sessions in sessions(), age_s in seconds(), at in vec(seconds(), 8)) {
        let curve = KaplanMeier::fit(&sessions);
        is_survival_function(|t_s| curve.survival(t_s), &instants(&curve, &at))?;
        // Below this S(age) the reference's conditional is no longer a quotient.
        prop_assume!(curve.survival(age_s) >= 1e-12);
        is_survival_function(|t_s| curve.conditional(age_s, t_s), &instants(&curve, &at))?;
    }

    #[test]
    fn surviving_twice_is_surviving_the_sum(sessions in sessions(), age_s in seconds(), a_s in seconds(), b_s in seconds()) {
        let curve = KaplanMeier::fit(&sessions);
        prop_assume!(curve.survival(age_s + a_s) >= 1e-9);
        let twice = curve.conditional(age_s, a_s) * curve.conditional(age_s + a_s, b_s);
        let once = curve.conditional(age_s, a_s + b_s);
        prop_assert!((twice - once).abs() <= 1e-9 || is_at_a_step(&curve, age_s + a_s + b_s), "{twice} and {once}");
    }

    #[test]
    fn what_remains_is_the_conditional_survival_where_no_floor_is_near(sessions in sessions(), age_s in seconds(), t_s in seconds()) {
        let curve = KaplanMeier::fit(&sessions);
        prop_assume!(curve.survival(age_s + t_s) > 1e-8);
        let (exact, published) = (curve.remaining(age_s, t_s), curve.conditional(age_s, t_s));
        prop_assert!((exact - published).abs() <= 1e-9, "{exact} and {published}");
    }

    #[test]
    fn what_remains_is_a_survival_function_at_any_age(sessions in sessions(), age_s in seconds(), at in vec(seconds(), 8)) {
        let curve = KaplanMeier::fit(&sessions);
        is_survival_function(|t_s| curve.remaining(age_s, t_s), &instants(&curve, &at))?;
    }

    #[test]
    fn a_curve_survives_its_digest_within_the_stated_error(sessions in sessions(), age_s in seconds()) {
        let curve = KaplanMeier::fit(&sessions);
        let digest = DigestCurve::new(&quantise(&curve, age_s));
        for horizon_s in HORIZONS_S {
            let (exact, read) = (curve.remaining(age_s, horizon_s), digest.survival(horizon_s));
            prop_assert!((exact - read).abs() <= 0.011, "S({horizon_s}) = {exact}, read as {read}");
            let (exact, read) = (-exact.ln(), -read.ln());
            let has_code = (1e-5..20.0).contains(&exact);
            prop_assert!(!has_code || (read / exact - 1.0).abs() <= 0.029, "H({horizon_s}) = {exact}, read as {read}");
        }
    }

    #[test]
    fn a_digest_is_a_survival_function_at_any_age(over in sessions(), live_s in seconds(), age_s in seconds(), at in vec(seconds(), 12)) {
        let digest = DigestCurve::new(&quantise_sessions(&over, live_s));
        let mut at: Vec<f64> = at.into_iter().chain(HORIZONS_S).collect();
        at.sort_by(f64::total_cmp);
        is_survival_function(|t_s| digest.survival(t_s), &at)?;
        is_survival_function(|t_s| digest.conditional(age_s, t_s), &at)?;
        let rest_s = digest.expected_remaining_s(age_s);
        prop_assert!((0.0..=86_400.0).contains(&rest_s), "expected to last {rest_s} s");
    }

    #[test]
    fn loss_lies_between_the_cheapest_and_the_dearest_departure(
        sessions in sessions(), age_s in seconds(), rates in rates(), work in work(), wait_s in 0.0..500.0_f64, rebuild_tps in 10.0..5000.0_f64,
    ) {
        let curve = KaplanMeier::fit(&sessions);
        let situation = Situation { rates: &rates, hazard: Hazard { curve: &curve, age_s }, wait_s, rebuild_tps: Some(rebuild_tps) };
        let parameters = CostParameters::default();
        let terms = terms(&situation, &work, &parameters);
        prop_assume!(terms.time_s() > 0.0 && curve.survival(age_s) >= 1e-12);
        let fixed_s = parameters.recompute_overhead_s + parameters.stall_penalty_s;
        let least_s = f64::from(work.context_tokens) / rebuild_tps + fixed_s;
        let most_s = f64::from(work.context_tokens + work.remaining_tokens()) / rebuild_tps + fixed_s;
        let leaves = terms.leave_probability;
        prop_assert!(terms.loss_s >= leaves * least_s - 1e-9, "{terms:?}, at least {}", leaves * least_s);
        prop_assert!(terms.loss_s <= leaves * most_s + 1e-9, "{terms:?}, at most {}", leaves * most_s);
        prop_assert!(terms.expected_s() >= terms.time_s() - ROUNDING);
    }

    #[test]
    fn cost_rises_with_any_hazard_where_every_departure_costs_the_same(
        sessions in sessions(), rates in rates(), work in work(), times in 1.0..10.0_f64,
    ) {
        let curve = KaplanMeier::fit(&sessions);
        let worse = Proportional { curve: &curve, times };
        let expected_s = |curve: &dyn Survival| {
            let situation = Situation { rates: &rates, hazard: Hazard { curve, age_s: 0.0 }, wait_s: 0.0, rebuild_tps: None };
            terms(&situation, &work, &CostParameters::default()).expected_s()
        };
        prop_assert!(expected_s(&worse) >= expected_s(&curve) - 1e-9);
    }

    #[test]
    fn cost_rises_with_a_steady_hazard_until_a_departure_is_all_but_certain(
        rates in rates(), work in work(), wait_s in 0.0..100.0_f64, rebuild_tps in 10.0..5000.0_f64, low in 0.0..1.5_f64, high in 0.0..1.5_f64,
    ) {
        // Expected departures within T.
        let (low, high) = (low.min(high), low.max(high));
        let terms_at = |per_s: f64| {
            let hazard = Hazard { curve: &Exponential { per_s }, age_s: 0.0 };
            let situation = Situation { rates: &rates, hazard, wait_s, rebuild_tps: Some(rebuild_tps) };
            terms(&situation, &work, &CostParameters::default())
        };
        let time_s = terms_at(0.0).time_s();
        prop_assume!(time_s > 0.0);
        let expected_s = |departures: f64| terms_at(departures / time_s).expected_s();
        prop_assert!(expected_s(high) >= expected_s(low) - 1e-9, "{} and {}", expected_s(low), expected_s(high));
    }

    #[test]
    fn the_chosen_peer_is_the_one_that_costs_least(peers in random_peers(0..8), work in work()) {
        let curves = curves_of(&peers);
        let fleet = fleet_of(&peers, &curves);
        let placement = HazardAwarePolicy::default().place(&fleet, &work);
        let costs: Vec<f64> = placement.assessed.iter().filter_map(Assessment::terms).map(Terms::expected_s).collect();
        let chosen = placement.chosen_assessment().and_then(Assessment::terms).map(Terms::expected_s);
        prop_assert_eq!(chosen, costs.iter().copied().reduce(f64::min));
        prop_assert_eq!(placement.assessed.len(), fleet.peers.len());
        prop_assert_eq!(OraclePlacement::default().place(&fleet, &work).chosen.is_some(), chosen.is_some());
    }

    #[test]
    fn every_move_is_attributable_to_the_hazard(peers in random_peers(1..8), work in work(), hops in 0..4_u32) {
        let curves = curves_of(&peers);
        let fleet = fleet_of(&peers, &curves);
        let policy = HazardAwarePolicy::default();
        let migration = policy.should_migrate(&fleet, &Running { current: 0, work, own_load_s: fleet.peers[0].load_s, hops });
        let MoveDecision::Move { to, planned } = migration.decision else { return Ok(()) };
        let stay = migration.stay.unwrap();
        let there = migration.candidates.iter().find(|candidate| candidate.peer == to).unwrap();
        prop_assert!(stay.loss_s - there.terms.loss_s - planned.cost_s > policy.limits.hysteresis_s);
        prop_assert!(there.terms.time_s() + planned.cost_s - stay.time_s() < policy.limits.hysteresis_s);
        prop_assert!(hops < policy.limits.max_hops && stay.service_s >= policy.limits.min_remaining_s);
        prop_assert!(migration.candidates.iter().all(|other| !other.passes || other.score_s() <= there.score_s()));
    }
}

/// Whether rounding may decide on which side of a step `t_s` lies.
fn is_at_a_step(curve: &KaplanMeier, t_s: f64) -> bool {
    curve.times_s().iter().any(|&step_s| (step_s - t_s).abs() <= 1e-9 * step_s)
}

/// A peer of a random fleet.
#[derive(Debug)]
struct RandomPeer {
    rates: PeerRates,
    sessions: Vec<Session>,
    load_s: f64,
    age_s: f64,
}

fn random_peers(count: core::ops::Range<usize>) -> impl Strategy<Value = Vec<RandomPeer>> {
    let peer = (rates(), sessions(), 0.0..300.0_f64, seconds());
    vec(peer.prop_map(|(rates, sessions, load_s, age_s)| RandomPeer { rates, sessions, load_s, age_s }), count)
}

fn curves_of(peers: &[RandomPeer]) -> Vec<KaplanMeier> {
    peers.iter().map(|peer| KaplanMeier::fit(&peer.sessions)).collect()
}

fn fleet_of<'a>(peers: &[RandomPeer], curves: &'a [KaplanMeier]) -> Fleet<'a, usize> {
    let named = peers.iter().zip(curves).enumerate().map(|(id, (peer, curve))| FleetPeer {
        id,
        rates: peer.rates,
        load_s: peer.load_s,
        hazard: Hazard { curve, age_s: peer.age_s },
        known_remaining_s: None,
    });
    Fleet::new(named.collect())
}

/// The counterpart of the two monotonicity properties: where the context still grows and a departure is certain anyway,
/// a higher hazard means an earlier departure, hence a shorter context to rebuild. The rule as given says so too.
#[test]
fn a_departure_that_is_certain_costs_less_the_sooner_it_comes() {
    let unplanned = Unplanned::Rebuild {
        context_tokens: 0.0,
        growth_tps: 10.0,
        growth_from_s: 0.0,
        growth_tokens: 1000.0,
        rebuild_tps: 100.0,
        fixed_s: 0.0,
    };
    let loss_s = |per_s| {
        let curve = Exponential { per_s };
        expected_loss_s(&Hazard { curve: &curve, age_s: 0.0 }, 100.0, 16, &unplanned)
    };
    assert!(loss_s(0.2) < loss_s(0.02));
}
