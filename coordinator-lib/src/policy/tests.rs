//! What the policies decide, on fleets small enough to follow by hand.

use super::*;
use crate::cost::{CostParameters, Method, PeerRates};
use crate::hazard::{Hazard, KaplanMeier, Session, Survival};

/// 10 tokens a second decoded, 100 prefilled, 1 MB/s, 10,000 bytes of KV a token, room for 8,192.
const RATES: PeerRates =
    PeerRates { decode_tps: 10.0, prefill_tps: 100.0, bandwidth_bps: 1e6, kv_bytes_per_token: 1e4, room_tokens: 8192 };

/// Never leaves.
#[derive(Debug)]
struct Stays;

impl Survival for Stays {
    fn survival(&self, _: f64) -> f64 {
        1.0
    }
}

/// Leaves when it is this old, in seconds.
fn leaves_at(age_s: f64) -> KaplanMeier {
    KaplanMeier::fit(&[Session::ended(age_s)])
}

fn peer<'a>(id: &'static str, curve: &'a dyn Survival) -> FleetPeer<'a, &'static str> {
    FleetPeer { id, rates: RATES, load_s: 0.0, hazard: Hazard { curve, age_s: 0.0 }, known_remaining_s: None }
}

fn faster<'a>(peer: FleetPeer<'a, &'static str>, by: f64) -> FleetPeer<'a, &'static str> {
    let rates = PeerRates { decode_tps: RATES.decode_tps * by, prefill_tps: RATES.prefill_tps * by, ..peer.rates };
    FleetPeer { rates, ..peer }
}

/// 10 s of prefill and 100 s of decoding on a peer at [`RATES`].
const WORK: Work = Work { context_tokens: 1000, prefill_tokens: 1000, expected_output_tokens: 1000, done_tokens: 0 };

fn choose(policy: &impl Policy<&'static str>, peers: Vec<FleetPeer<'_, &'static str>>) -> Option<&'static str> {
    policy.place(&Fleet::new(peers), &WORK).chosen
}

#[test]
fn a_slower_peer_that_stays_beats_a_faster_one_that_leaves() {
    let soon = leaves_at(80.0);
    let fleet = || vec![faster(peer("leaves", &soon), 1.1), peer("stays", &Stays)];
    assert_eq!(choose(&HazardAwarePolicy::default(), fleet()), Some("stays"));
    assert_eq!(choose(&ReactiveFastest::default(), fleet()), Some("leaves"));
}

#[test]
fn the_first_of_equals_wins() {
    let fleet = || vec![peer("a", &Stays), peer("b", &Stays)];
    assert_eq!(choose(&HazardAwarePolicy::default(), fleet()), Some("a"));
    assert_eq!(choose(&ReactiveFastest::default(), fleet()), Some("a"));
    assert_eq!(choose(&LoadAware::default(), fleet()), Some("a"));
    assert_eq!(choose(&OraclePlacement::default(), fleet()), Some("a"));
}

#[test]
fn a_peer_without_room_or_rates_is_not_chosen_and_says_why() {
    let tight = FleetPeer { rates: PeerRates { room_tokens: 1999, ..RATES }, ..peer("tight", &Stays) };
    let new = FleetPeer { rates: PeerRates { decode_tps: 0.0, ..RATES }, ..peer("new", &Stays) };
    let fleet = Fleet::new(vec![tight, new]);
    let placement = HazardAwarePolicy::default().place(&fleet, &WORK);
    let verdicts: Vec<Verdict> = placement.assessed.iter().map(|assessment| assessment.verdict).collect();
    let no_room = Misfit::NoRoom { needed_tokens: 2000, room_tokens: 1999 };
    assert_eq!(placement.chosen, None);
    assert_eq!(verdicts, [Verdict::Unfit(no_room), Verdict::Unfit(Misfit::NotMeasured)]);
}

#[test]
fn an_explanation_ranks_the_rejected_after_the_chosen_and_the_unfit_last() {
    let tight = FleetPeer { rates: PeerRates { room_tokens: 10, ..RATES }, ..peer("tight", &Stays) };
    let fleet = Fleet::new(vec![tight, peer("slow", &Stays), faster(peer("fast", &Stays), 2.0)]);
    let placement = HazardAwarePolicy::default().place(&fleet, &WORK);
    let order: Vec<&str> = placement.ranked().iter().map(|assessment| assessment.peer).collect();
    assert_eq!(order, ["fast", "slow", "tight"]);
    let chosen = placement.chosen_assessment().unwrap();
    assert_eq!((chosen.peer, chosen.fallback), ("fast", Some("tight")), "the first of the others, room or not");
}

#[test]
fn load_aware_takes_the_idle_peer_however_slow() {
    let busy = FleetPeer { load_s: 1.0, ..faster(peer("busy", &Stays), 10.0) };
    let fleet = || vec![busy, peer("idle", &Stays), faster(peer("idle and faster", &Stays), 2.0)];
    assert_eq!(choose(&LoadAware::default(), fleet()), Some("idle and faster"));
    assert_eq!(choose(&ReactiveFastest::default(), fleet()), Some("busy"));
}

#[test]
fn the_oracle_takes_the_fastest_that_stays_long_enough_and_else_the_fastest() {
    let known = |peer, remaining_s| FleetPeer { known_remaining_s: Some(remaining_s), ..peer };
    let fast = faster(peer("fast", &Stays), 2.0);
    let slow = peer("slow", &Stays);
    let oracle = OraclePlacement::default();
    assert_eq!(choose(&oracle, vec![known(slow, 110.1), known(fast, 55.1)]), Some("fast"));
    assert_eq!(choose(&oracle, vec![known(slow, 110.1), known(fast, 54.9)]), Some("slow"));
    assert_eq!(choose(&oracle, vec![known(slow, 109.9), known(fast, 54.9)]), Some("fast"));
}

#[test]
fn random_draws_every_peer_alike_and_the_same_again() {
    let tight = FleetPeer { rates: PeerRates { room_tokens: 10, ..RATES }, ..peer("tight", &Stays) };
    let draws = |seed: u64| -> Vec<&str> {
        let policy = Random { parameters: CostParameters { cells: 1, ..CostParameters::default() }, seed };
        let mut fleet = Fleet::new(vec![peer("a", &Stays), tight, peer("b", &Stays), peer("c", &Stays)]);
        let mut draw = |draw| {
            fleet.draw = draw;
            policy.place(&fleet, &WORK).chosen.unwrap()
        };
        (0..3000).map(&mut draw).collect()
    };
    let first = draws(7);
    for name in ["a", "b", "c"] {
        let count = first.iter().filter(|chosen| **chosen == name).count();
        assert!((900..1100).contains(&count), "{name} was drawn {count} times of 3000");
    }
    assert_eq!(first, draws(7));
    assert_ne!(first, draws(8));
    assert_eq!(choose(&Random { parameters: CostParameters::default(), seed: 7 }, vec![tight]), None);
}

/// 50 s of decoding are left on a peer at [`RATES`].
fn running(current: &'static str) -> Running<&'static str> {
    Running { current, work: Work::running(1000, 1000, 500), own_load_s: 50.0, hops: 0 }
}

fn blocking() -> HazardAwarePolicy {
    HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default())
}

fn decide(peers: Vec<FleetPeer<'_, &'static str>>, running: &Running<&'static str>) -> MoveDecision<&'static str> {
    blocking().should_migrate(&Fleet::new(peers), running).decision
}

/// The source leaves in 30 s: another must prefill 1,750 tokens by then, and the stall is seen.
fn threatened(curve: &dyn Survival) -> FleetPeer<'_, &'static str> {
    FleetPeer { load_s: 50.0, ..peer("source", curve) }
}

#[test]
fn a_request_moves_away_from_a_peer_that_leaves() {
    let soon = leaves_at(30.0);
    let target = faster(peer("target", &Stays), 1.5);
    let decision = decide(vec![threatened(&soon), target], &running("source"));
    // 1,500 tokens: 10.2 s of prefill at 150 a second, 15.5 s of transfer at 100 a second.
    let MoveDecision::Move { to: "target", planned } = decision else { panic!("{decision:?}") };
    assert_eq!(planned.method, Method::Recompute);
    assert!((planned.cost_s - 10.2).abs() < 1e-9);
}

#[test]
fn the_first_of_equal_targets_gets_the_request() {
    let soon = leaves_at(30.0);
    let target = |id| faster(peer(id, &Stays), 1.5);
    let decision = decide(vec![target("a"), threatened(&soon), target("b")], &running("source"));
    assert!(matches!(decision, MoveDecision::Move { to: "a", .. }), "{decision:?}");
}

#[test]
fn a_measured_link_counts_instead_of_the_slower_end() {
    let soon = leaves_at(30.0);
    let mut fleet = Fleet::new(vec![threatened(&soon), peer("target", &Stays)]);
    let decide = |fleet: &Fleet<'_, _>| blocking().should_migrate(fleet, &running("source"));
    assert_eq!(decide(&fleet).decision, MoveDecision::Stay(StayReason::NotWorthIt));
    fleet.links_bps.push(("target", "source", 1e9));
    assert_eq!(decide(&fleet).decision, MoveDecision::Stay(StayReason::NotWorthIt), "the other way round");
    fleet.links_bps.push(("source", "target", 1e8));
    assert!(
        matches!(decide(&fleet).decision, MoveDecision::Move { planned, .. } if planned.method == Method::Transfer)
    );
}

#[test]
fn a_request_never_moves_only_because_another_peer_is_faster() {
    let target = faster(peer("target", &Stays), 100.0);
    let decision = decide(vec![threatened(&Stays), target], &running("source"));
    assert_eq!(decision, MoveDecision::Stay(StayReason::NotWorthIt));
}

#[test]
fn guards_keep_a_threatened_request_where_it_is_and_show_what_they_kept() {
    let soon = leaves_at(30.0);
    let target = faster(peer("target", &Stays), 1.5);
    let tight = FleetPeer { rates: PeerRates { room_tokens: 1999, ..target.rates }, ..target };
    let nearly_done = Running { work: Work::running(1000, 1000, 960), own_load_s: 4.0, ..running("source") };
    let cases = [
        (target, Running { hops: 3, ..running("source") }, StayReason::HopsSpent),
        (target, nearly_done, StayReason::NearlyDone),
        (tight, running("source"), StayReason::NobodyElse),
        (target, running("elsewhere"), StayReason::CurrentPeerUnknown),
    ];
    for (target, running, reason) in cases {
        assert_eq!(decide(vec![threatened(&soon), target], &running), MoveDecision::Stay(reason));
    }
    let fleet = Fleet::new(vec![threatened(&soon), target]);
    let kept = blocking().should_migrate(&fleet, &Running { hops: 3, ..running("source") });
    assert!(kept.candidates[0].passes, "the explanation shows that it would have moved");
}

#[test]
fn baselines_never_move_what_runs() {
    let soon = leaves_at(30.0);
    let fleet = Fleet::new(vec![threatened(&soon), faster(peer("target", &Stays), 1.5)]);
    let random = Random { parameters: CostParameters::default(), seed: 0 };
    let policies: [&dyn Policy<&str>; 4] =
        [&random, &ReactiveFastest::default(), &LoadAware::default(), &OraclePlacement::default()];
    for policy in policies {
        let decision = policy.should_migrate(&fleet, &running("source")).decision;
        assert_eq!(decision, MoveDecision::Stay(StayReason::PolicyNeverMoves), "{}", policy.name());
    }
}
