//! Planned moves, step by step: what is said to whom, and what a request is when a move comes to nothing.

use idlewild_protocol::{
    DepartureCause, Epoch, JobEvent, JobFailure, JobInput, PeerId, PlanRefusal, PlanStep, Pull, PullPart, TokenId, Way,
};

use super::bench::{Bench, PROMPT, peer, proposal, token};
use crate::ownership::{Dropped, Ending, Input, LossReason, Output, Preparation, StandbyNews, StandbyStage};

const SOURCE: (Epoch, u8) = (Epoch(1), 1);

fn prepare(n: u8) -> PlanStep {
    PlanStep::Prepare { destination: peer(n), way: Way::Ids }
}

fn hold(n: u8) -> PlanStep {
    PlanStep::Hold { destination: peer(n) }
}

fn pause(n: u8) -> PlanStep {
    PlanStep::Pause { destination: peer(n) }
}

fn commit(n: u8) -> PlanStep {
    PlanStep::Commit { destination: peer(n), way: Way::Ids }
}

fn abort(n: u8) -> PlanStep {
    PlanStep::Abort { destination: peer(n) }
}

fn release(n: u8) -> PlanStep {
    PlanStep::Release { destination: peer(n) }
}

fn replace(n: u8) -> PlanStep {
    PlanStep::Replace { worker: peer(n), fallback: None }
}

/// Two tokens are written, and peer 2 has all of it.
fn with_standby() -> Bench {
    let mut bench = Bench::running(2);
    bench.prepared(1, 2);
    bench.said.clear();
    bench
}

/// The source is to stop after token 5.
fn committing() -> Bench {
    let mut bench = with_standby();
    bench.propose(1, commit(2));
    bench.said.clear();
    bench
}

fn ids(indices: core::ops::Range<u32>) -> Vec<TokenId> {
    indices.map(token).collect()
}

fn forward(from_index: u32, ids: Vec<TokenId>) -> Output {
    Output::Forward { destination: peer(2), preparation: Preparation(1), from_index, ids }
}

fn take_over(epoch: u32, from_index: u32) -> Output {
    Output::TakeOver { destination: peer(2), preparation: Preparation(1), epoch: Epoch(epoch), from_index }
}

fn stop_after(index: u32) -> Output {
    Output::StopAfter { worker: peer(1), epoch: Epoch(1), index }
}

const GO_ON: Output = Output::GoOn { worker: PeerId([SOURCE.1; 32]), epoch: SOURCE.0 };

/// The source's assignment is live, whatever was tried, and its next token counts.
#[track_caller]
fn assert_where_it_was(bench: &mut Bench) {
    assert_eq!(bench.machine.live(), Some((SOURCE.0, peer(SOURCE.1))));
    let next = bench.machine.log().next_index();
    bench.token(1, next);
    assert_eq!(bench.machine.log().next_index(), next + 1);
    assert!(!bench.said.iter().any(|o| matches!(o, Output::TakeOver { .. } | Output::Start { .. })));
}

#[test]
fn a_preparation_gets_the_context_so_far_and_every_token_after() {
    let mut bench = Bench::running(2);
    bench.propose(1, prepare(2));
    let said = bench.take();
    let Some(Output::Prepare { destination, context, .. }) = said.first() else { panic!("{said:?}") };
    assert_eq!((*destination, context.epoch), (peer(2), Epoch(0)));
    assert_eq!(context.input, JobInput::Tokens { prompt: PROMPT.to_vec(), generated: ids(0..2) });
    bench.token(1, 2);
    bench.token(1, 3);
    assert!(bench.said.contains(&forward(2, ids(2..3))) && bench.said.contains(&forward(3, ids(3..4))));
    assert_where_it_was(&mut bench);
}

#[test]
fn the_way_of_a_preparation_says_how_much_is_pulled_from_the_source() {
    let ways = [
        (Way::Ids, None),
        (Way::PreCopy, Some(PullPart::Whole)),
        (Way::Hybrid, Some(PullPart::Rest)),
        (Way::StoppedSplit, Some(PullPart::Rest)),
    ];
    for (way, part) in ways {
        let mut bench = Bench::running(2);
        bench.propose(1, PlanStep::Prepare { destination: peer(2), way });
        let Some(Output::Prepare { context, .. }) = bench.said.first() else { panic!("{:?}", bench.said) };
        assert_eq!(context.pull, part.map(|part| Pull { holder: peer(1), part }), "{way:?}");
        assert_eq!(bench.machine.standby().unwrap().way, way);
    }
}

#[test]
fn progress_is_told_to_the_coordinator_with_the_lag() {
    let mut bench = Bench::running(2);
    bench.propose(1, prepare(2));
    let lag = |bench: &Bench| bench.machine.standby().unwrap().lag_tokens;
    assert_eq!(lag(&bench), 5);
    bench.standby(StandbyNews::Progress { held_tokens: 4 });
    assert_eq!(lag(&bench), 1);
    bench.token(1, 2);
    assert_eq!(lag(&bench), 2);
    assert!(matches!(
        bench.said.iter().rev().find(|o| matches!(o, Output::Standby(_))),
        Some(Output::Standby(Some(_)))
    ));
}

#[test]
fn what_is_paused_gets_nothing_until_it_is_wanted_and_then_all_at_once() {
    for wanted in [hold(2), commit(2)] {
        let mut bench = with_standby();
        bench.propose(1, pause(2));
        bench.tokens(1, 2..5);
        assert!(!bench.said.iter().any(|o| matches!(o, Output::Forward { .. })));
        bench.propose(1, wanted);
        assert!(bench.said.contains(&forward(2, ids(2..5))), "{wanted:?}");
    }
}

#[test]
fn a_commit_hands_over_after_the_last_token_that_the_source_was_to_say() {
    let mut bench = with_standby();
    bench.propose(1, commit(2));
    assert_eq!(bench.said.first(), Some(&stop_after(5)));
    bench.tokens(1, 2..5);
    assert_eq!(bench.machine.live(), Some((Epoch(1), peer(1))), "its epoch is live to the last token");
    bench.said.clear();
    bench.token(1, 5);
    let said = bench.take();
    let text = Output::Text { index: 5, text: "5 ".to_owned() };
    let cancel = Output::Cancel { worker: peer(1), epoch: Epoch(1) };
    let moved = Output::Moved { from: peer(1), to: peer(2), at_index: 6, why: Ending::HandedOver };
    let expected = [text, forward(5, ids(5..6)), moved, take_over(2, 6), Output::Standby(None)];
    assert_eq!(said, expected, "the destination may still pull the last tokens");
    bench.token(1, 6);
    assert_eq!(bench.machine.log().next_index(), 6, "the source's epoch is over");
    let late = JobEvent::Leaving { epoch: Epoch(1), cause: DepartureCause::OwnerReturned, notice_ms: 2000 };
    bench.event(1, late);
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::HandedOver, "that was over before");
    bench.token(2, 6);
    assert!(bench.said.contains(&cancel));
    bench.token(2, 7);
    bench.finish(2, "");
    assert_eq!(bench.text(), "6 7 ");
    assert!(bench.machine.is_over());
}

#[test]
fn a_source_says_on_for_what_its_destination_lacks() {
    for (lag_tokens, last_index) in [(0, 5), (2, 7), (5, 8)] {
        let mut bench = Bench::running(2);
        bench.propose(1, prepare(2));
        bench.standby(StandbyNews::Progress { held_tokens: 5 - lag_tokens });
        bench.said.clear();
        bench.propose(1, commit(2));
        assert_eq!(bench.said.first(), Some(&stop_after(last_index)), "{lag_tokens}");
    }
}

#[test]
fn a_source_that_is_handed_over_has_not_failed() {
    let mut bench = committing();
    bench.tokens(1, 2..6);
    bench.lose(2);
    assert_eq!(bench.question().excluded, [peer(2)]);
}

#[test]
fn a_source_that_ends_the_answer_before_it_stops_has_ended_it() {
    let mut bench = committing();
    bench.token(1, 2);
    bench.finish(1, "");
    assert!(matches!(bench.said.last(), Some(Output::Done { output_tokens: 3, .. })));
    let why = Dropped::RequestEnded;
    assert!(bench.said.contains(&Output::Release { destination: peer(2), preparation: Preparation(1), why }));
}

#[test]
fn a_source_that_dies_leaves_the_destination_a_head_start() {
    type Loss = fn(&mut Bench);
    type Beginning = fn() -> Bench;
    let losses: [(&str, Loss); 4] = [
        ("gone", |bench| bench.lose(1)),
        ("its engine died", |bench| bench.fail(1, JobFailure::Engine("signal 9".to_owned()))),
        ("it left a token out", |bench| bench.token(1, 9)),
        ("it said goodbye", |bench| {
            let cause = DepartureCause::OwnerReturned;
            bench.event(1, JobEvent::Leaving { epoch: Epoch(1), cause, notice_ms: 2000 });
        }),
    ];
    let begun = || {
        let mut bench = Bench::running(2);
        bench.propose(1, prepare(2));
        bench.standby(StandbyNews::Progress { held_tokens: 1 });
        bench
    };
    let stages: [(&str, Beginning); 3] = [("preparing", begun), ("ready", with_standby), ("committing", committing)];
    for (stage, bench) in stages {
        for (how, lose) in losses {
            let mut bench = bench();
            lose(&mut bench);
            assert!(bench.said.contains(&take_over(2, 2)), "{stage}, {how}: {:?}", bench.said);
            assert!(!bench.has_question(), "{stage}, {how}: nobody is asked");
            bench.tokens(2, 2..4);
            assert_eq!(bench.machine.log().next_index(), 4, "{stage}, {how}");
        }
    }
}

#[test]
fn a_paused_destination_that_takes_over_is_sent_what_it_lacks_first() {
    let mut bench = with_standby();
    bench.propose(1, pause(2));
    bench.tokens(1, 2..4);
    bench.said.clear();
    bench.lose(1);
    let told: Vec<&Output> =
        bench.said.iter().filter(|o| matches!(o, Output::Forward { .. } | Output::TakeOver { .. })).collect();
    assert_eq!(told, [&forward(2, ids(2..4)), &take_over(2, 4)]);
}

#[test]
fn a_source_that_says_goodbye_keeps_its_context_until_its_notice_ends() {
    let mut bench = with_standby();
    let leaving = JobEvent::Leaving { epoch: Epoch(1), cause: DepartureCause::Sleep, notice_ms: 2000 };
    bench.event(1, leaving);
    assert!(!bench.said.iter().any(|o| matches!(o, Output::Cancel { .. })), "the destination may still pull from it");
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::Left(DepartureCause::Sleep));
}

#[test]
fn a_destination_that_dies_changes_nothing() {
    let cases = [
        (StandbyNews::Lost(LossReason::Closed), Dropped::Lost(LossReason::Closed)),
        (StandbyNews::Failed(JobFailure::Busy), Dropped::Failed(JobFailure::Busy)),
        (StandbyNews::Leaving(DepartureCause::Battery), Dropped::Leaving(DepartureCause::Battery)),
        (StandbyNews::Progress { held_tokens: 99 }, Dropped::Faulty),
    ];
    for (bench, told_to_go_on) in [(with_standby as fn() -> Bench, false), (committing, true)] {
        for (news, why) in cases.clone() {
            let mut bench = bench();
            bench.standby(news);
            let released = Output::Release { destination: peer(2), preparation: Preparation(1), why };
            assert!(bench.said.contains(&released), "{:?}", bench.said);
            assert_eq!(bench.said.contains(&GO_ON), told_to_go_on);
            assert_eq!(bench.machine.standby(), None);
            assert_where_it_was(&mut bench);
        }
    }
}

#[test]
fn a_move_that_is_withdrawn_at_any_step_leaves_the_request_where_it_was() {
    for (bench, told_to_go_on) in [(with_standby as fn() -> Bench, false), (committing, true)] {
        let mut bench = bench();
        bench.propose(1, release(2));
        assert_eq!(bench.said.contains(&GO_ON), told_to_go_on);
        assert_eq!(bench.machine.standby(), None);
        assert_where_it_was(&mut bench);
    }
    let mut bench = committing();
    bench.propose(1, abort(2));
    assert!(bench.said.contains(&GO_ON));
    assert_eq!(bench.machine.standby().unwrap().stage, StandbyStage::Preparing, "what it was before");
    bench.tokens(1, 2..9);
    assert_where_it_was(&mut bench);
}

#[test]
fn another_destination_replaces_the_present_one() {
    let mut bench = with_standby();
    bench.propose(1, prepare(3));
    let why = Dropped::Released;
    assert_eq!(bench.said[0], Output::Release { destination: peer(2), preparation: Preparation(1), why });
    assert!(matches!(bench.said[2], Output::Prepare { preparation: Preparation(2), .. }), "{:?}", bench.said);
    bench.hear(Input::Standby { preparation: Preparation(1), news: StandbyNews::Lost(LossReason::Closed) });
    assert_eq!(bench.machine.standby().unwrap().destination, peer(3));
}

#[test]
fn a_loss_that_was_said_of_the_preparation_counts_for_the_assignment_that_it_became() {
    let mut bench = committing();
    bench.tokens(1, 2..6);
    bench.standby(StandbyNews::Lost(LossReason::Closed));
    assert_eq!(bench.machine.live(), None);
    assert!(bench.has_question());
}

#[test]
fn a_proposal_is_followed_once_in_order_and_only_for_the_live_assignment() {
    let mut bench = Bench::running(2);
    let mut hear = |term, number, epoch, step| {
        bench.hear(Input::Proposed(proposal(term, number, epoch, step)));
        bench.refusal()
    };
    assert_eq!(hear(5, 1, 2, prepare(2)), Some(PlanRefusal::OtherEpoch));
    assert_eq!(hear(1, 7, 1, prepare(2)), None);
    assert_eq!(hear(1, 7, 1, prepare(2)), Some(PlanRefusal::Overtaken));
    assert_eq!(hear(1, 6, 1, release(2)), Some(PlanRefusal::Overtaken));
    assert_eq!(hear(2, 1, 1, hold(2)), None);
    assert_eq!(hear(1, 8, 1, release(2)), Some(PlanRefusal::Overtaken), "the older coordinator's");
    bench.catch_up();
    bench.hear(Input::Proposed(proposal(2, 2, 1, commit(2))));
    bench.tokens(1, 2..6);
    bench.said.clear();
    bench.hear(Input::Proposed(proposal(2, 3, 1, release(2))));
    assert_eq!(bench.refusal(), Some(PlanRefusal::OtherEpoch), "made before the move");
    assert_eq!(bench.machine.live(), Some((Epoch(2), peer(2))));
}

#[test]
fn what_makes_no_sense_now_is_refused_and_changes_nothing() {
    type Case = (fn() -> Bench, PlanStep, PlanRefusal);
    let fresh = || {
        let mut bench = Bench::new();
        bench.place_on(1);
        bench
    };
    let leaving = || {
        let mut bench = Bench::running(2);
        bench.event(1, JobEvent::Leaving { epoch: Epoch(1), cause: DepartureCause::Sleep, notice_ms: 2000 });
        bench
    };
    let far_behind = || {
        let mut bench = Bench::running(2);
        bench.machine.limits.commit_lag_tokens = 4;
        bench.propose(1, prepare(2));
        bench
    };
    let nearly_done = || {
        let mut bench = Bench::running(6);
        bench.prepared(1, 2);
        bench
    };
    let often_moved = || {
        let mut bench = with_standby();
        (bench.machine.limits.assignments_max, bench.machine.limits.preparations_max) = (1, 1);
        bench
    };
    let often_placed = || {
        let mut bench = Bench::new();
        bench.place_on(1);
        bench.machine.limits.assignments_max = 2;
        bench
    };
    let cases: [Case; 16] = [
        (fresh, prepare(2), PlanRefusal::NotAccepted),
        (leaving, prepare(2), PlanRefusal::SourceLeaving),
        (with_standby, prepare(1), PlanRefusal::RuledOut),
        (with_standby, prepare(2), PlanRefusal::PreparesAlready),
        (with_standby, commit(3), PlanRefusal::PreparesNothing),
        (with_standby, replace(3), PlanRefusal::Begun),
        (fresh, replace(1), PlanRefusal::RuledOut),
        (leaving, replace(3), PlanRefusal::SourceLeaving),
        (often_placed, replace(3), PlanRefusal::TooOften),
        (with_standby, abort(2), PlanRefusal::OtherStep),
        (committing, hold(2), PlanRefusal::OtherStep),
        (committing, commit(2), PlanRefusal::OtherStep),
        (far_behind, commit(2), PlanRefusal::NotReady),
        (nearly_done, commit(2), PlanRefusal::NearlyDone),
        (often_moved, commit(2), PlanRefusal::TooOften),
        (often_moved, prepare(3), PlanRefusal::TooOften),
    ];
    for (bench, step, why) in cases {
        let mut bench = bench();
        let (before, live) = (bench.machine.standby(), bench.machine.live());
        bench.propose(1, step);
        assert_eq!(bench.refusal(), Some(why), "{step:?}");
        assert_eq!((bench.machine.standby(), bench.machine.live()), (before, live), "{step:?}");
    }
}
