//! What must hold of costs and decisions, whatever the history.

mod random;

use idlewild_coordinator::cost::{
    CostParameters, PeerRates, Situation, Terms, Unplanned, Work, expected_loss_s, terms,
};
use idlewild_coordinator::hazard::{Hazard, KaplanMeier, Session, Survival};
use idlewild_coordinator::policy::{
    Assessment, Fleet, FleetPeer, HazardAwarePolicy, LoadAware, MigrationLimits, MoveDecision, OraclePlacement, Policy,
    ReactiveFastest, Running,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use random::{seconds, sessions};

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

/// A peer of a random fleet.
#[derive(Debug)]
struct RandomPeer {
    rates: PeerRates,
    sessions: Vec<Session>,
    load_s: f64,
    age_s: f64,
}

fn peers(count: core::ops::Range<usize>) -> impl Strategy<Value = Vec<RandomPeer>> {
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

/// What a broken measurement may say.
fn odd() -> impl Strategy<Value = f64> {
    let never = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-320, 1e-300, 1e300];
    prop_oneof![2 => 0.001..1000.0_f64, 1 => select(never.to_vec())]
}

fn odd_rates() -> impl Strategy<Value = PeerRates> {
    (odd(), odd(), odd(), odd(), any::<u32>()).prop_map(
        |(decode_tps, prefill_tps, bandwidth_bps, kv_bytes_per_token, room_tokens)| PeerRates {
            decode_tps,
            prefill_tps,
            bandwidth_bps,
            kv_bytes_per_token,
            room_tokens,
        },
    )
}

fn odd_peers() -> impl Strategy<Value = Vec<RandomPeer>> {
    let peer = (odd_rates(), sessions(), odd(), odd());
    vec(peer.prop_map(|(rates, sessions, load_s, age_s)| RandomPeer { rates, sessions, load_s, age_s }), 0..6)
}

/// Every rule that places by a comparison.
fn policies() -> Vec<Box<dyn Policy<usize>>> {
    vec![
        Box::new(HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default())),
        Box::new(HazardAwarePolicy::default()),
        Box::new(ReactiveFastest::default()),
        Box::new(LoadAware::default()),
        Box::new(OraclePlacement::default()),
    ]
}

/// A curve that breaks its contract.
#[derive(Debug)]
struct NoNumber;

impl Survival for NoNumber {
    fn survival(&self, _: f64) -> f64 {
        f64::NAN
    }
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
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loss_lies_between_the_cheapest_and_the_dearest_departure(
        peer in peers(1..2), work in work(), wait_s in 0.0..500.0_f64, rebuild_tps in 10.0..5000.0_f64,
    ) {
        let RandomPeer { rates, sessions, age_s, .. } = &peer[0];
        let curve = KaplanMeier::fit(sessions);
        let hazard = Hazard { curve: &curve, age_s: *age_s };
        let parameters = CostParameters::default();
        let terms = terms(&Situation { rates, hazard, wait_s, rebuild_tps: Some(rebuild_tps) }, &work, &parameters);
        prop_assume!(terms.time_s() > 0.0 && curve.survival(*age_s) >= 1e-12);
        let fixed_s = parameters.recompute_overhead_s + parameters.stall_penalty_s;
        let least_s = f64::from(work.context_tokens) / rebuild_tps + fixed_s;
        let most_s = f64::from(work.context_tokens + work.remaining_tokens()) / rebuild_tps + fixed_s;
        let leaves = terms.leave_probability;
        prop_assert!(terms.loss_s >= leaves * least_s - 1e-9, "{terms:?}, at least {}", leaves * least_s);
        prop_assert!(terms.loss_s <= leaves * most_s + 1e-9, "{terms:?}, at most {}", leaves * most_s);
    }

    #[test]
    fn cost_rises_with_any_hazard_where_every_departure_costs_the_same(
        sessions in sessions(), rates in rates(), work in work(), times in 1.0..10.0_f64,
    ) {
        let curve = KaplanMeier::fit(&sessions);
        let worse = Proportional { curve: &curve, times };
        let expected_s = |curve: &dyn Survival| {
            let hazard = Hazard { curve, age_s: 0.0 };
            let alone = Situation { rates: &rates, hazard, wait_s: 0.0, rebuild_tps: None };
            terms(&alone, &work, &CostParameters::default()).expected_s()
        };
        prop_assert!(expected_s(&worse) >= expected_s(&curve) - 1e-9);
    }

    /// `departures` are those expected within T. Beyond about 1.7 it is no longer so: see the test below.
    #[test]
    fn cost_rises_with_a_steady_hazard_until_a_departure_is_all_but_certain(
        rates in rates(), work in work(), wait_s in 0.0..100.0_f64, rebuild_tps in 10.0..5000.0_f64,
        departures in (0.0..1.5_f64, 0.0..1.5_f64),
    ) {
        let terms_at = |per_s: f64| {
            let hazard = Hazard { curve: &Exponential { per_s }, age_s: 0.0 };
            let situation = Situation { rates: &rates, hazard, wait_s, rebuild_tps: Some(rebuild_tps) };
            terms(&situation, &work, &CostParameters::default())
        };
        let time_s = terms_at(0.0).time_s();
        prop_assume!(time_s > 0.0);
        let low_s = terms_at(departures.0.min(departures.1) / time_s).expected_s();
        let high_s = terms_at(departures.0.max(departures.1) / time_s).expected_s();
        prop_assert!(high_s >= low_s - 1e-9, "{low_s} and {high_s}");
    }

    #[test]
    fn the_chosen_peer_is_the_one_that_costs_least(peers in peers(0..8), work in work()) {
        let curves = curves_of(&peers);
        let fleet = fleet_of(&peers, &curves);
        let placement = HazardAwarePolicy::default().place(&fleet, &work);
        let costs = placement.assessed.iter().filter_map(Assessment::terms).map(Terms::expected_s);
        let chosen = placement.chosen_assessment().and_then(Assessment::terms).map(Terms::expected_s);
        prop_assert_eq!(chosen, costs.reduce(f64::min));
        prop_assert_eq!(placement.assessed.len(), fleet.peers.len());
        prop_assert_eq!(OraclePlacement::default().place(&fleet, &work).chosen.is_some(), chosen.is_some());
    }

    #[test]
    fn whatever_was_measured_the_cost_of_the_chosen_peer_is_a_number(
        peers in odd_peers(), work in work(), own_load_s in odd(), hops in 0..4_u32,
    ) {
        let curves = curves_of(&peers);
        let fleet = fleet_of(&peers, &curves);
        let running = Running { current: 0, work, own_load_s, hops };
        for policy in policies() {
            let placement = policy.place(&fleet, &work);
            let fit = placement.assessed.iter().any(|assessment| assessment.terms().is_some());
            prop_assert_eq!(placement.chosen.is_some(), fit, "{}", policy.name());
            let cost_s = placement.chosen_assessment().and_then(Assessment::terms).map_or(0.0, Terms::expected_s);
            prop_assert!(!cost_s.is_nan(), "{}: {placement:?}", policy.name());
            if let MoveDecision::Move { planned, .. } = policy.should_migrate(&fleet, &running).decision {
                prop_assert!(planned.cost_s.is_finite(), "{}", policy.name());
            }
        }
    }

    #[test]
    fn a_cost_that_is_no_number_never_wins(peers in peers(2..6), at in 0..6_usize, work in work()) {
        let curves = curves_of(&peers);
        let mut fleet = fleet_of(&peers, &curves);
        let broken = at % peers.len();
        fleet.peers[broken].hazard.curve = &NoNumber;
        let blocking = HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default());
        let placement = blocking.place(&fleet, &work);
        let costs = || placement.assessed.iter().filter_map(Assessment::terms).map(Terms::expected_s);
        let chosen_s = placement.chosen_assessment().and_then(Assessment::terms).map(Terms::expected_s);
        prop_assert!(chosen_s.is_none_or(|s| !s.is_nan()) || costs().all(f64::is_nan), "{placement:?}");
        let ranked = placement.ranked();
        let ranked = ranked.iter().filter_map(|assessment| assessment.terms()).map(Terms::expected_s);
        prop_assert!(ranked.is_sorted_by(|a, b| a <= b || b.is_nan()), "{:?}", placement.ranked());
        // The corrected rule takes it for a peer that leaves at once: that is a number.
        let costs = HazardAwarePolicy::default().place(&fleet, &work).assessed;
        prop_assert!(costs.iter().filter_map(Assessment::terms).all(|terms| terms.expected_s().is_finite()));
    }

    /// The source is sure to leave halfway and the others sure to stay, so that about every second case moves.
    #[test]
    fn every_move_is_attributable_to_the_hazard(peers in peers(2..8), work in work(), hops in 0..4_u32) {
        let mut curves = curves_of(&peers);
        curves[0] = KaplanMeier::fit(&[Session::ended(20.0)]);
        let mut fleet = fleet_of(&peers, &curves);
        fleet.peers[0].hazard.age_s = 0.0;
        let policy = HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default());
        let running = Running { current: 0, work, own_load_s: fleet.peers[0].load_s, hops };
        let migration = policy.should_migrate(&fleet, &running);
        let stay = migration.stay.unwrap();
        let passing = || migration.candidates.iter().filter(|candidate| candidate.passes);
        let may_move = hops < policy.limits.max_hops && stay.service_s >= policy.limits.min_remaining_s;
        let MoveDecision::Move { to, planned } = migration.decision else {
            prop_assert!(!may_move || passing().count() == 0, "it stays though it should move");
            return Ok(());
        };
        let there = migration.candidates.iter().find(|candidate| candidate.peer == to).unwrap();
        prop_assert!(may_move);
        prop_assert!(stay.loss_s - there.terms.loss_s - planned.cost_s > policy.limits.hysteresis_s);
        prop_assert!(there.terms.time_s() + planned.cost_s - stay.time_s() < policy.limits.hysteresis_s);
        prop_assert!(passing().all(|other| other.score_s() <= there.score_s()));
    }
}

/// Where the context still grows and a departure is certain anyway, a higher hazard means an earlier departure, hence a
/// shorter context to rebuild. The rule as given says so; nobody should rely on E rising with every hazard.
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
