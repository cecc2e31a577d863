//! What the corrected rule decides about requests that run, on situations small enough to follow by hand.

use idlewild_protocol::DepartureCause;

use super::*;
use crate::cost::{Path, PeerRates, Residual, Way};
use crate::hazard::{Hazard, Survival};

/// 10 tokens a second decoded, 100 prefilled, 10,000 bytes of KV a token, room for 8,192.
pub(super) const RATES: PeerRates =
    PeerRates { decode_tps: 10.0, prefill_tps: 100.0, bandwidth_bps: 0.0, kv_bytes_per_token: 1e4, room_tokens: 8192 };

/// 1,000 tokens of KV a second: pre-copy.
const LINK: Path = Path { goodput_bps: 1e7, round_trip_s: 0.01, budget_bytes: None, has_same_layout: true };

/// Leaves once in so many seconds.
#[derive(Debug)]
pub(super) struct Every(pub(super) f64);

impl Survival for Every {
    fn survival(&self, t_s: f64) -> f64 {
        (-t_s / self.0).exp()
    }
}

const NEVER: Every = Every(1e12);

pub(super) fn host<'a>(id: &'static str, curve: &'a dyn Survival) -> Host<'a, &'static str> {
    Host::new(id, RATES, Hazard { curve, age_s: 0.0 })
}

fn to<'a>(host: Host<'a, &'static str>) -> Candidate<'a, &'static str> {
    Candidate { host, path: Some(LINK) }
}

/// 1,000 tokens of context, 500 to come: 50 seconds at [`RATES`].
fn on<'a>(curve: &'a dyn Survival, candidates: &'a [Candidate<'a, &'static str>]) -> RunningRequest<'a, &'static str> {
    RunningRequest {
        source: host("source", curve),
        context_tokens: 1000,
        residual: Residual::exactly(500),
        hops: 0,
        leaving: Leaving::Unannounced,
        standby: None,
        candidates,
    }
}

fn standby(lag_tokens: u32) -> Standby<&'static str> {
    Standby { at: "j", way: Way::PreCopy, lag_tokens, is_paused: false }
}

fn check(name: &str, request: &RunningRequest<'_, &'static str>, expect: (Action<&'static str>, Because)) {
    let decision = decide(request, &OverlappedParameters::default());
    assert_eq!((decision.action, decision.because), expect, "{name}: {decision:#?}");
}

const STAY: Action<&str> = Action::Stay;

fn prepare(way: Way) -> Action<&'static str> {
    Action::Prepare { destination: "j", way }
}

fn commit(way: Way) -> Action<&'static str> {
    Action::Commit { destination: "j", way }
}

#[test]
fn a_threatened_request_is_prepared_elsewhere_in_the_way_that_the_link_says() {
    let over = |goodput_bps: f64| Path { goodput_bps, ..LINK };
    for (name, path, way) in [
        ("a fast link", LINK, Way::PreCopy),
        ("one like its prefill", over(1e6), Way::Hybrid),
        ("a slow one", over(1e5), Way::Ids),
        ("another layout", Path { has_same_layout: false, ..LINK }, Way::Ids),
        ("a relay that is used up", Path { budget_bytes: Some(1e6), ..LINK }, Way::Ids),
    ] {
        let candidates = [Candidate { path: Some(path), ..to(host("j", &NEVER)) }];
        check(name, &on(&Every(60.0), &candidates), (prepare(way), Because::PreparationPays));
    }
}

/// Where the link is a little more than four times as fast as the prefill, phi says pre-copy, and the hybrid is ready first.
#[test]
fn a_way_chosen_by_worth_is_the_one_that_saves_most_after_its_price() {
    let parameters = |way_choice| OverlappedParameters { way_choice, ..OverlappedParameters::default() };
    let way_of = |path, every_s, leaving, way_choice| {
        let curve = Every(every_s);
        let candidates = [Candidate { path: Some(path), ..to(host("j", &NEVER)) }];
        let request = RunningRequest { context_tokens: 4000, leaving, ..on(&curve, &candidates) };
        decide(&request, &parameters(way_choice)).candidates[0].preparation.unwrap().way
    };
    let over = |goodput_bps: f64| Path { goodput_bps, ..LINK };
    let notice = announced(5000, true);
    for (name, path, every_s, leaving, by_phi, by_worth) in [
        ("in danger", over(4.5e6), 20.0, Leaving::Unannounced, Way::PreCopy, Way::Hybrid),
        ("at leisure", over(4.5e6), 6000.0, Leaving::Unannounced, Way::PreCopy, Way::PreCopy),
        ("a slow link, in danger", over(4e5), 20.0, Leaving::Unannounced, Way::Ids, Way::Hybrid),
        ("no link", over(0.0), 20.0, Leaving::Unannounced, Way::Ids, Way::Ids),
        ("under a notice", over(4.5e6), 1e9, notice, Way::PreCopy, Way::Hybrid),
    ] {
        assert_eq!(way_of(path, every_s, leaving, WayChoice::ByPhi), by_phi, "{name}, by phi");
        assert_eq!(way_of(path, every_s, leaving, WayChoice::ByWorth), by_worth, "{name}, by worth");
    }
}

#[test]
fn a_source_that_is_sure_to_leave_within_seconds_is_prepared_for_whatever_the_link() {
    for (goodput_bps, way) in [(1e9, Way::PreCopy), (1e6, Way::Hybrid), (1e5, Way::Ids)] {
        let candidates = [Candidate { path: Some(Path { goodput_bps, ..LINK }), ..to(host("j", &NEVER)) }];
        let request = RunningRequest { context_tokens: 2000, ..on(&Every(1.0), &candidates) };
        check(&format!("{goodput_bps}"), &request, (prepare(way), Because::PreparationPays));
    }
}

#[test]
fn a_standby_that_reports_to_lack_more_than_there_is_lacks_all() {
    let candidates = [to(host("j", &NEVER))];
    let decision_at = |lag_tokens| {
        let request = RunningRequest { standby: Some(standby(lag_tokens)), ..on(&Every(60.0), &candidates) };
        decide(&request, &OverlappedParameters::default())
    };
    assert_eq!(decision_at(u32::MAX), decision_at(1000));
}

#[test]
fn a_preparation_that_does_not_pay_is_not_begun() {
    let j = host("j", &NEVER);
    check("a safe source", &on(&NEVER, &[to(j)]), (STAY, Because::NoPreparationPays));
    check("nobody", &on(&Every(60.0), &[]), (STAY, Because::NobodyElse));
    check(
        "one that leaves first",
        &on(&Every(60.0), &[to(host("j", &Every(0.1)))]),
        (STAY, Because::NoPreparationPays),
    );
    let site = Some(Site { id: 7, leaves_together: 1.0 });
    let candidates = [to(Host { site, ..j })];
    let request = on(&Every(60.0), &candidates);
    let together = RunningRequest { source: Host { site, ..request.source }, ..request };
    check("one on the same circuit", &together, (STAY, Because::NoPreparationPays));
}

#[test]
fn a_dear_destination_is_worth_it_only_for_a_greater_risk() {
    let slow = Candidate { path: Some(Path { goodput_bps: 1e5, ..LINK }), ..to(host("j", &NEVER)) };
    let at = |utilisation| [Candidate { host: Host { utilisation, ..slow.host }, ..slow }];
    let curve = Every(500.0);
    check("idle", &on(&curve, &at(0.0)), (prepare(Way::Ids), Because::PreparationPays));
    check("busy", &on(&curve, &at(0.75)), (STAY, Because::NoPreparationPays));
    check("busy, greater risk", &on(&Every(100.0), &at(0.75)), (prepare(Way::Ids), Because::PreparationPays));
}

#[test]
fn of_two_the_one_that_is_worth_more_is_prepared_and_the_first_of_equals() {
    let slow = Candidate { path: Some(Path { goodput_bps: 1e5, ..LINK }), ..to(host("slow", &NEVER)) };
    let candidates = [slow, to(host("j", &NEVER)), to(host("k", &NEVER))];
    check("three", &on(&Every(60.0), &candidates), (prepare(Way::PreCopy), Because::PreparationPays));
    let decision = decide(&on(&Every(60.0), &candidates), &OverlappedParameters::default());
    assert_eq!(decision.candidates.iter().map(|terms| terms.host).collect::<Vec<_>>(), ["slow", "j", "k"]);
    assert!(decision.candidates.iter().all(|terms| terms.prepare.unwrap().passes()), "the rejected say why, too");
    assert_eq!(decision.chosen().unwrap().host, "j");
}

#[test]
fn what_was_prepared_is_used_held_or_let_go_by_the_risk() {
    let candidates = [to(host("j", &NEVER))];
    // P within 50 s: 0.56, 0.05, 0.0005. HOLD needs 1,250 P > 12.5; COMMIT 3.1 P > 0.1 + 0.25.
    for (name, every_s, lag_tokens, expect) in [
        ("a great risk", 60.0, 10, (commit(Way::PreCopy), Because::MovePays)),
        ("some risk", 1000.0, 10, (Action::Hold { destination: "j" }, Because::StandbyPays)),
        ("none to speak of", 1e5, 10, (Action::Pause { destination: "j" }, Because::StandbyDoesNotPay)),
        ("not ready", 60.0, 600, (prepare(Way::PreCopy), Because::PreparationPays)),
        ("not ready, no risk", 1e6, 600, (Action::Pause { destination: "j" }, Because::NoPreparationPays)),
    ] {
        let curve = Every(every_s);
        check(name, &RunningRequest { standby: Some(standby(lag_tokens)), ..on(&curve, &candidates) }, expect);
    }
}

#[test]
fn what_is_paused_is_resumed_when_the_risk_is_back_and_else_left_alone() {
    let candidates = [to(host("j", &NEVER))];
    let paused = Some(Standby { is_paused: true, ..standby(200) });
    let (threatened, safe) = (Every(60.0), Every(1e6));
    let at = |curve| RunningRequest { standby: paused, ..on(curve, &candidates) };
    check("threatened", &at(&threatened), (prepare(Way::PreCopy), Because::PreparationPays));
    check("safe", &at(&safe), (STAY, Because::NoPreparationPays));
}

#[test]
fn a_standby_that_is_gone_or_unfit_is_released() {
    let gone = (Action::Release { destination: "j" }, Because::StandbyUseless);
    let rates = PeerRates { room_tokens: 1499, ..RATES };
    for (name, candidate) in [
        ("gone", to(host("k", &NEVER))),
        ("out of reach", Candidate { path: None, ..to(host("j", &NEVER)) }),
        ("short of memory", to(Host { rates, ..host("j", &NEVER) })),
    ] {
        let candidates = [candidate];
        check(name, &RunningRequest { standby: Some(standby(10)), ..on(&Every(60.0), &candidates) }, gone);
    }
}

#[test]
fn a_request_never_moves_only_because_the_standby_is_faster() {
    let rates = PeerRates { decode_tps: 1000.0, prefill_tps: 1e4, ..RATES };
    let candidates = [to(Host { rates, ..host("j", &NEVER) })];
    let request = RunningRequest { standby: Some(standby(0)), ..on(&NEVER, &candidates) };
    check("safe", &request, (Action::Pause { destination: "j" }, Because::StandbyDoesNotPay));
}

#[test]
fn a_move_that_would_take_noticeably_longer_is_not_made() {
    let slow = PeerRates { decode_tps: 9.0, ..RATES };
    let candidates = [to(Host { rates: slow, ..host("j", &NEVER) })];
    let request = RunningRequest { standby: Some(standby(0)), ..on(&Every(60.0), &candidates) };
    let decision = decide(&request, &OverlappedParameters::default());
    assert_eq!(decision.action, Action::Hold { destination: "j" });
    let commit = decision.candidates[0].commit.unwrap();
    assert!(commit.risk_gain_s() > commit.risk_limit_s && commit.delay_s > commit.time_limit_s, "{commit:?}");
}

#[test]
fn every_veto_is_named() {
    let j = to(host("j", &NEVER));
    let rates = |rates| Candidate { host: Host { rates, ..j.host }, ..j };
    let request = on(&Every(60.0), &[]);
    let soon = RunningRequest { residual: Residual::of([10.0, 10.0, 500.0, 500.0, 900.0]), ..request };
    let outrun = PeerRates { prefill_tps: 9.0, ..RATES };
    for (candidate, request, veto) in [
        (Candidate { path: None, ..j }, request, Veto::NoPath),
        (rates(PeerRates { prefill_tps: f64::NAN, ..RATES }), request, Veto::NotMeasured),
        (rates(PeerRates { room_tokens: 1499, ..RATES }), request, Veto::NoRoom),
        (
            Candidate { path: Some(Path { has_same_layout: false, ..LINK }), ..rates(outrun) },
            request,
            Veto::CannotKeepUp,
        ),
        (Candidate { host: Host { queued: 1, ..j.host }, ..j }, request, Veto::Queued),
        (Candidate { host: Host { utilisation: 0.81, ..j.host }, ..j }, request, Veto::TooBusy),
        (Candidate { host: Host { utilisation: f64::NAN, ..j.host }, ..j }, request, Veto::TooBusy),
        (j, RunningRequest { hops: 3, ..request }, Veto::HopsSpent),
        (j, soon, Veto::FinishesFirst),
    ] {
        let candidates = [candidate];
        let decision = decide(&RunningRequest { candidates: &candidates, ..request }, &OverlappedParameters::default());
        assert_eq!(decision.candidates[0].veto, Some(veto));
        assert_eq!((decision.action, decision.because), (STAY, Because::AllVetoed), "{veto:?}");
    }
}

fn announced(notice_ms: u32, decodes: bool) -> Leaving {
    Leaving::Announced { cause: DepartureCause::Sleep, notice_ms, decodes }
}

#[test]
fn a_departure_that_is_announced_is_used_whatever_the_hazard_says() {
    let candidates = [to(host("j", &NEVER))];
    for (name, leaving, standby, expect) in [
        ("its owner is back", announced(5000, false), None, (commit(Way::StoppedSplit), Because::Notice)),
        ("time to prepare", announced(20_000, true), None, (prepare(Way::PreCopy), Because::Notice)),
        ("under way", announced(10_000, true), Some(standby(300)), (prepare(Way::PreCopy), Because::Notice)),
        ("ready", announced(10_000, true), Some(standby(5)), (commit(Way::PreCopy), Because::Notice)),
        ("the last look", announced(1000, true), Some(standby(300)), (commit(Way::StoppedSplit), Because::Notice)),
        ("done before", announced(51_000, true), None, (STAY, Because::DoneBeforeNotice)),
    ] {
        check(name, &RunningRequest { leaving, standby, ..on(&NEVER, &candidates) }, expect);
    }
    check("nobody", &RunningRequest { leaving: announced(5000, true), ..on(&NEVER, &[]) }, (STAY, Because::NobodyElse));
}

/// A standby that has all is compared with another peer, to which the context could get in time, and which will be safer.
#[test]
fn a_notice_keeps_to_what_is_transferred_unless_another_is_better_by_more_than_the_hysteresis() {
    let to_k = Action::Prepare { destination: "k", way: Way::PreCopy };
    let stopped = |destination| Action::Commit { destination, way: Way::StoppedSplit };
    // L within 50 s at j: 3.2 s (cold) times the chance that it leaves.
    for (name, j_every_s, lag_tokens, decodes, expect) in [
        ("a hair better", 1e6, 5, true, commit(Way::PreCopy)),
        ("a little better", 2500.0, 5, true, commit(Way::PreCopy)),
        ("much better", 50.0, 5, true, to_k),
        ("a hair better than one under way", 1e6, 400, true, prepare(Way::PreCopy)),
        ("much better than one under way", 50.0, 400, true, to_k),
        ("a hair better for a stopped source", 1e6, 900, false, stopped("j")),
        ("much better for a stopped source", 50.0, 900, false, stopped("k")),
    ] {
        let j = Every(j_every_s);
        let candidates = [to(host("k", &NEVER)), to(host("j", &j))];
        let request = RunningRequest {
            leaving: announced(20_000, decodes),
            standby: Some(standby(lag_tokens)),
            ..on(&NEVER, &candidates)
        };
        check(name, &request, (expect, Because::Notice));
    }
}

#[test]
fn of_two_the_one_that_makes_more_of_the_notice_is_taken() {
    let slow = Candidate { path: Some(Path { goodput_bps: 1e5, ..LINK }), ..to(host("slow", &NEVER)) };
    let leaves = to(host("leaves", &Every(1.0)));
    let candidates = [slow, leaves, to(host("j", &NEVER))];
    let request = RunningRequest { leaving: announced(3000, false), ..on(&NEVER, &candidates) };
    check("three", &request, (commit(Way::StoppedSplit), Because::Notice));
    let unmeasured =
        RunningRequest { source: Host { rates: PeerRates { decode_tps: 0.0, ..RATES }, ..request.source }, ..request };
    check("of an unknown source", &unmeasured, (commit(Way::StoppedSplit), Because::Notice));
    let silent = RunningRequest { leaving: Leaving::Unannounced, ..unmeasured };
    check("that says nothing", &silent, (STAY, Because::SourceNotMeasured));
}
