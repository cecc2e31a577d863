//! What a leader plans for the requests that run.

use core::time::Duration;

use idlewild_protocol::{
    DepartureCause, Digest, Generation, ModelId, ModelLoad, PeerState, Plan, PlanReason, PlanRefusal, PlanRefused,
    PlanStep, PlanTerms, RequestReport, RequestStage, Standby, StandbyState, Term,
};

use super::fleet::{digest, model, ms, peer, request, tell as hear, view_of};
use super::leading::{
    FIRST_ROUND, actions, first_round, leader, leader_with, origin, plans, report, running_on, staying, tell,
};
use crate::coordinator::{CoordinatorConfig, Input};
use crate::cost::Way;
use crate::policy::{HazardAwarePolicy, MigrationModel};

/// A model that nobody asks for here.
const OTHER: ModelId = ModelId([8; 32]);

/// 20 s of expected departures, where 30 s of work are left.
const LIKELY_TO_LEAVE_S: f64 = 10.0;

/// Longer than any request.
const STAYS_S: f64 = 1e6;

/// Peer 2 is likely to leave, peer 3 and the origin are not; peer 3 is the fastest.
fn one_risky() -> [Digest; 3] {
    let mut fast = staying(3, STAYS_S);
    fast.models[0].decode_tps = 12.0;
    [staying(1, STAYS_S), staying(2, LIKELY_TO_LEAVE_S), fast]
}

fn standby(n: u8, state: StandbyState, lag_tokens: u32) -> Standby {
    Standby { peer: peer(n), way: Way::Ids, state, lag_tokens }
}

/// The action that the first round plans for this report, in a view of these.
fn check(digests: &[Digest], report: RequestReport, expected: Option<PlanStep>, why: &str) {
    let mut leader = leader();
    first_round(&mut leader, &view_of(digests), &[report]);
    let planned: Vec<PlanStep> = actions(&mut leader).into_iter().map(|(_, action)| action).collect();
    assert_eq!(planned, Vec::from_iter(expected), "{why}");
}

#[test]
fn a_destination_prepares_for_a_peer_that_is_likely_to_leave() {
    let mut leader = leader();
    first_round(&mut leader, &view_of(&one_risky()), &[report(1, running_on(2))]);
    let plan = plans(&mut leader).remove(0);
    assert_eq!(plan.step.taker(), Some(peer(3)));
    let PlanTerms { reason, stay, weighed } = &plan.terms;
    let stay = stay.unwrap();
    assert!(stay.peer == peer(2) && stay.loss_s > 10.0 && stay.leave_probability > 0.9, "{stay:?}");
    let chosen = weighed[0];
    assert_eq!((*reason, chosen.terms.peer, chosen.veto), (PlanReason::PreparationPays, peer(3), None));
    assert!((chosen.terms.service_s - 300.0 / 12.0).abs() < 1e-9);
    assert!(chosen.test.is_some_and(|(saved_s, price_s)| saved_s > price_s), "{chosen:?}");
    let preparation = chosen.preparation.unwrap();
    assert!(Some(preparation.way) == plan.step.way() && preparation.ready_s > 0.0 && preparation.stall_s > 0.0);
    assert!(weighed[1..].iter().any(|rejected| rejected.terms.peer == peer(1)));
}

#[test]
fn a_peer_prepares_that_has_to_load_the_model_first_unless_it_works_on_another() {
    let [origin, risky, mut cold] = one_risky();
    let origin = Digest { state: PeerState::Busy, ..origin };
    cold.models[0] = ModelLoad { loaded: false, queue_wait_ms: 2000, ..cold.models[0] };
    let mut leader = leader();
    first_round(&mut leader, &view_of(&[origin.clone(), risky.clone(), cold.clone()]), &[report(1, running_on(2))]);
    let plan = plans(&mut leader).remove(0);
    assert_eq!(plan.step.taker(), Some(peer(3)));
    let preparation = plan.terms.weighed[0].preparation.unwrap();
    assert!(preparation.ready_s > 2.0, "the load counts: {preparation:?}");

    cold.models.push(ModelLoad { model: OTHER, running: 1, ..model() });
    check(&[origin, risky, cold], report(1, running_on(2)), None, "an option does not take another model's place");
}

#[test]
fn a_preparation_that_is_as_it_should_be_is_not_planned_again() {
    let mut leader = leader();
    let preparing =
        RequestReport { standby: Some(standby(3, StandbyState::Preparing, 1500)), ..report(1, running_on(2)) };
    first_round(&mut leader, &view_of(&one_risky()), &[preparing]);
    assert_eq!(plans(&mut leader), []);
}

#[test]
fn a_request_goes_over_to_the_standby_that_keeps_up() {
    let mut leader = leader();
    let ready = RequestReport { standby: Some(standby(3, StandbyState::Holding, 5)), ..report(1, running_on(2)) };
    first_round(&mut leader, &view_of(&one_risky()), &[ready]);
    let plan = plans(&mut leader).remove(0);
    assert!(matches!(plan.step, PlanStep::Commit { destination, .. } if destination == peer(3)), "{plan:?}");
    assert_eq!(plan.terms.reason, PlanReason::MovePays);
}

#[test]
fn by_the_rule_as_given_it_moves_in_one_step() {
    let policy = HazardAwarePolicy { migration: MigrationModel::Blocking, ..HazardAwarePolicy::default() };
    let mut leader = leader_with(&CoordinatorConfig { policy, ..CoordinatorConfig::default() });
    first_round(&mut leader, &view_of(&one_risky()), &[report(1, running_on(2))]);
    let plan = plans(&mut leader).remove(0);
    assert_eq!(plan.step, PlanStep::Commit { destination: peer(3), way: Way::StoppedSplit });
    let chosen = plan.terms.weighed[0];
    assert_eq!((plan.terms.reason, chosen.terms.peer), (PlanReason::RiskFalls, peer(3)));
    assert!(chosen.test.is_some_and(|(gain_s, limit_s)| gain_s > limit_s), "{chosen:?}");
}

#[test]
fn a_request_on_a_peer_that_stays_is_left_alone_however_fast_the_others_are() {
    check(&one_risky(), report(1, running_on(1)), None, "peer 3 is faster, and that is no reason");
}

#[test]
fn an_orphan_is_placed_with_its_real_context() {
    let mut leader = leader();
    tell(&mut leader, ms(0), &view_of(&one_risky()), report(1, RequestStage::Orphaned));
    leader.handle(ms(0), &view_of(&one_risky()), Input::Tick);
    let plan = plans(&mut leader).remove(0);
    assert_eq!(plan.step, PlanStep::Replace { worker: peer(3), fallback: Some(peer(1)) });
    let first = plan.terms.weighed[0].terms;
    assert_eq!((plan.terms.reason, first.peer), (PlanReason::Orphaned, peer(3)));
    let service_s = first.service_s;
    assert!((service_s - (2000.0 / 100.0 + 300.0 / 12.0)).abs() < 1e-9, "{service_s}");
}

#[test]
fn a_queued_request_goes_where_it_is_done_sooner_by_more_than_the_hysteresis() {
    let queued = |wait_ms| report(1, RequestStage::Queued { worker: peer(1), wait_ms });
    let to_3 = Some(PlanStep::Replace { worker: peer(3), fallback: Some(peer(1)) });
    check(&one_risky(), queued(60_000), to_3, "a minute of queue");
    let alike = [staying(1, STAYS_S), staying(3, STAYS_S)];
    let to_alike = Some(PlanStep::Replace { worker: peer(3), fallback: Some(peer(1)) });
    check(&alike, queued(1900), None, "less than the hysteresis");
    check(&alike, queued(2500), to_alike, "more than it");
}

/// Peer `n`, where one request decodes at 10 tokens a second: so one more would at 10 / (0.5 + 0.5 * 2).
fn with_one(n: u8) -> Digest {
    let mut digest = staying(n, STAYS_S);
    (digest.models[0].running, digest.models[0].decode_tps) = (1, 10.0 / 1.5);
    digest
}

#[test]
fn a_request_is_no_load_that_it_meets_itself() {
    let queued = report(1, RequestStage::Queued { worker: peer(1), wait_ms: 0 });
    let mut view = [with_one(1), staying(3, STAYS_S)];
    check(&view, queued.clone(), None, "it has the peer to itself, and does not begin anew on another");
    view[0].models[0].kv_free_tokens = 0;
    check(&view, queued.clone(), None, "its own context fills the peer");

    // Full: the rate is that of one in the place of one that is there.
    (view[0].models[0].slots, view[0].models[0].decode_tps) = (1, 10.0);
    check(&view, queued, None, "it is the one that is there");
}

#[test]
fn a_departure_is_answered_at_once() {
    let mut view = view_of(&one_risky());
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(3)));
    view.departed(ms(100), peer(3), DepartureCause::Crash);
    leader.handle(ms(100), &view, Input::PeerChanged { peer: peer(3) });
    assert_eq!(leader.poll_timeout(), Some(ms(0)), "at once");
    leader.handle(ms(100), &view, Input::Tick);
    let [(_, PlanStep::Replace { worker, .. })] = actions(&mut leader)[..] else { panic!("one plan") };
    assert_eq!(worker, peer(1));
}

#[test]
fn a_notice_is_used_to_prepare_and_to_hand_over_to_whoever_is_ready() {
    let notice = Input::Notice { peer: peer(2), cause: DepartureCause::Sleep, notice: Duration::from_secs(10) };
    let check = |standby: Option<Standby>, expected: &dyn Fn(&PlanStep) -> bool| {
        let mut leader = leader();
        let view = view_of(&one_risky());
        tell(&mut leader, ms(0), &view, RequestReport { standby, ..report(1, running_on(2)) });
        leader.handle(ms(10), &view, notice.clone());
        leader.handle(ms(10), &view, Input::Tick);
        let plan = plans(&mut leader).remove(0);
        assert!(expected(&plan.step), "{plan:?}");
        assert_eq!(plan.terms.reason, PlanReason::Notice);
    };
    check(None, &|action| matches!(action, PlanStep::Prepare { .. }));
    check(
        Some(standby(3, StandbyState::Holding, 5)),
        &|action| matches!(action, PlanStep::Commit { destination, .. } if *destination == peer(3)),
    );
}

#[test]
fn a_kv_cache_that_is_still_being_made_is_not_pulled() {
    let notice = Input::Notice { peer: peer(2), cause: DepartureCause::Sleep, notice: Duration::from_secs(20) };
    let view = view_of(&one_risky());
    for (done_tokens, is_pulled) in [(0, false), (1, true)] {
        let mut leader = leader();
        let report = RequestReport { done_tokens, ..report(1, running_on(2)) };
        assert_eq!(leader.way(ms(0), &view, &report, peer(3)) != Way::Ids, is_pulled, "asked for by hand");
        tell(&mut leader, ms(0), &view, report);
        leader.handle(ms(10), &view, notice.clone());
        leader.handle(ms(10), &view, Input::Tick);
        let [(_, PlanStep::Prepare { way, .. })] = actions(&mut leader)[..] else { panic!("one plan") };
        assert_eq!(way != Way::Ids, is_pulled, "{way:?} after {done_tokens} tokens");
    }
}

#[test]
fn under_a_notice_every_report_is_looked_at_at_once() {
    let view = view_of(&one_risky());
    let mut leader = leader();
    let notice = Input::Notice { peer: peer(2), cause: DepartureCause::Sleep, notice: Duration::from_secs(4) };
    tell(&mut leader, ms(0), &view, report(1, running_on(2)));
    leader.handle(ms(0), &view, notice);
    leader.handle(ms(0), &view, Input::Tick);
    assert!(matches!(plans(&mut leader)[..], [Plan { step: PlanStep::Prepare { .. }, .. }]));
    let ready =
        RequestReport { sequence: 2, standby: Some(standby(3, StandbyState::Holding, 5)), ..report(1, running_on(2)) };
    tell(&mut leader, ms(1000), &view, ready);
    leader.handle(ms(1000), &view, Input::Tick);
    assert!(matches!(plans(&mut leader)[..], [Plan { step: PlanStep::Commit { .. }, .. }]));
}

#[test]
fn an_orphan_goes_on_where_most_of_its_context_is() {
    let mut leader = leader();
    let view = view_of(&one_risky());
    tell(
        &mut leader,
        ms(0),
        &view,
        RequestReport { standby: Some(standby(1, StandbyState::Paused, 10)), ..report(1, RequestStage::Orphaned) },
    );
    leader.handle(ms(0), &view, Input::Tick);
    let plan = plans(&mut leader).remove(0);
    assert_eq!(plan.step.taker(), Some(peer(1)));
    assert!((plan.terms.weighed[0].terms.service_s - (10.0 / 100.0 + 300.0 / 10.0)).abs() < 1e-9, "{plan:?}");
}

#[test]
fn an_owner_who_is_back_counts_as_a_notice() {
    let mut view = view_of(&one_risky());
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(3)));
    let busy = Digest { sequence: 2, state: PeerState::Busy, ..staying(3, STAYS_S) };
    hear(&mut view, ms(50), busy);
    leader.handle(ms(50), &view, Input::PeerChanged { peer: peer(3) });
    leader.handle(ms(50), &view, Input::Tick);
    let plan = plans(&mut leader).remove(0);
    assert_eq!(plan.step, PlanStep::Commit { destination: peer(1), way: Way::StoppedSplit });
    assert_eq!(plan.terms.reason, PlanReason::Notice);
}

#[test]
fn a_standby_that_cannot_take_over_any_more_is_released() {
    let mut digests = one_risky();
    digests[2].state = PeerState::Busy;
    let prepared = RequestReport { standby: Some(standby(3, StandbyState::Holding, 5)), ..report(1, running_on(1)) };
    check(&digests, prepared, Some(PlanStep::Release { destination: peer(3) }), "its owner is back");
}

#[test]
fn a_peer_that_failed_the_request_is_not_proposed() {
    let failed = RequestReport { excluded: vec![peer(3)], ..report(1, RequestStage::Orphaned) };
    let mut leader = leader();
    tell(&mut leader, ms(0), &view_of(&one_risky()), failed);
    leader.handle(ms(0), &view_of(&one_risky()), Input::Tick);
    assert_eq!(plans(&mut leader)[0].step.taker(), Some(peer(1)));
}

#[test]
fn what_is_planned_for_one_request_counts_for_the_next() {
    let digests: Vec<Digest> = (1..=4).map(|n| staying(n, STAYS_S)).collect();
    let orphans: Vec<RequestReport> = (1..=8).map(|n| report(n, RequestStage::Orphaned)).collect();
    let mut leader = leader();
    first_round(&mut leader, &view_of(&digests), &orphans);
    let mut on_each = [0; 5];
    for plan in plans(&mut leader) {
        on_each[usize::from(plan.step.taker().unwrap().0[0])] += 1;
    }
    assert_eq!(on_each, [0, 2, 2, 2, 2]);
}

#[test]
fn a_plan_is_made_again_until_a_report_shows_it_and_not_at_once() {
    let view = view_of(&one_risky());
    let mut leader = leader();
    let risky = report(1, running_on(2));
    first_round(&mut leader, &view, std::slice::from_ref(&risky));
    let first = plans(&mut leader).remove(0);
    leader.handle(FIRST_ROUND + ms(100), &view, Input::PeerChanged { peer: peer(2) });
    leader.handle(FIRST_ROUND + ms(100), &view, Input::Tick);
    assert_eq!(plans(&mut leader), []);
    let next = leader.poll_timeout().unwrap();
    assert_eq!(next, FIRST_ROUND + Duration::from_secs(5));
    leader.handle(next, &view, Input::Tick);
    let again = plans(&mut leader).remove(0);
    assert!(again.generation > first.generation && again.step == first.step);
    tell(&mut leader, next, &view, RequestReport { epoch: risky.epoch.next(), ..report(1, running_on(3)) });
    leader.handle(next + Duration::from_secs(5), &view, Input::Tick);
    assert_eq!(plans(&mut leader), [], "it runs where it should");
}

#[test]
fn a_request_that_its_origin_is_placing_is_left_alone_until_it_is_reported_anew() {
    let view = view_of(&one_risky());
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(2)));
    leader.handle(ms(0), &view, Input::Place { origin: origin(), request: request(1) });
    let _ = leader.poll_output();
    leader.handle(FIRST_ROUND, &view, Input::Tick);
    assert_eq!(plans(&mut leader), []);
    tell(&mut leader, FIRST_ROUND, &view, RequestReport { sequence: 2, ..report(1, running_on(2)) });
    leader.handle(FIRST_ROUND * 2, &view, Input::Tick);
    assert_eq!(plans(&mut leader).len(), 1);
}

#[test]
fn a_worker_that_was_never_heard_of_is_its_origins_business() {
    check(&one_risky(), report(1, running_on(77)), None, "perhaps the view is late");
}

#[test]
fn what_cannot_be_placed_is_not_planned() {
    let full = ModelLoad { context_tokens: 1000, ..model() };
    check(&[digest(1, full)], report(1, RequestStage::Orphaned), None, "no room");
    check(&[], report(1, RequestStage::Orphaned), None, "nobody");
}

#[test]
fn a_later_term_comes_after_every_plan_of_an_earlier_one() {
    let view = view_of(&one_risky());
    let mut leader = leader();
    first_round(&mut leader, &view, &[report(1, running_on(2)), report(2, running_on(2))]);
    let early = plans(&mut leader).last().unwrap().generation;
    leader.handle(FIRST_ROUND, &view, Input::Leading { term: Term(2) });
    tell(&mut leader, FIRST_ROUND, &view, report(1, running_on(2)));
    leader.handle(FIRST_ROUND * 2, &view, Input::Tick);
    assert!(plans(&mut leader)[0].generation > early);
}

/// Plans for a risky request, refuses it as `why`, having heard plans up to `heard`, and says what is planned `later`.
fn after_refusal(why: PlanRefusal, heard: u64, later: Duration) -> Vec<Plan> {
    let view = view_of(&one_risky());
    let mut leader = leader();
    first_round(&mut leader, &view, &[report(1, running_on(2))]);
    let Plan { request, generation, .. } = plans(&mut leader).remove(0);
    let heard = Some(Generation { number: heard, ..generation });
    let refused = PlanRefused { request, generation, why, heard };
    leader.handle(FIRST_ROUND, &view, Input::Refused { origin: origin(), refused });
    tell(&mut leader, FIRST_ROUND, &view, RequestReport { sequence: 2, ..report(1, running_on(2)) });
    leader.handle(FIRST_ROUND + later, &view, Input::Tick);
    plans(&mut leader)
}

#[test]
fn what_is_refused_is_not_proposed_again_for_a_while() {
    let (soon, late) = (Duration::from_secs(5), Duration::from_secs(10));
    assert_eq!(after_refusal(PlanRefusal::TooOften, 0, soon), []);
    assert_eq!(after_refusal(PlanRefusal::TooOften, 0, late).len(), 1);
    assert_eq!(after_refusal(PlanRefusal::OtherEpoch, 0, soon).len(), 1, "its report was late");
}

#[test]
fn an_origin_that_has_heard_later_plans_is_told_a_later_one() {
    let again = after_refusal(PlanRefusal::Overtaken, 40, Duration::from_secs(5)).remove(0);
    assert_eq!(again.generation.number, 41);
}

#[test]
fn what_another_peer_refuses_counts_for_nothing() {
    let view = view_of(&one_risky());
    let mut leader = leader();
    first_round(&mut leader, &view, &[report(1, running_on(2))]);
    let Plan { request, generation, .. } = plans(&mut leader).remove(0);
    let refused = PlanRefused { request, generation, why: PlanRefusal::TooOften, heard: None };
    leader.handle(FIRST_ROUND, &view, Input::Refused { origin: peer(3), refused });
    leader.handle(FIRST_ROUND * 2, &view, Input::Tick);
    assert_eq!(plans(&mut leader).len(), 1);
}

#[test]
fn a_move_that_is_under_way_is_left_to_its_origin() {
    let committing =
        RequestReport { standby: Some(standby(3, StandbyState::Committing, 5)), ..report(1, running_on(2)) };
    check(&one_risky(), committing, None, "its source stops in a moment");
}
