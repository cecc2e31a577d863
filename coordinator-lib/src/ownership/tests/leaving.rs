//! A worker that says goodbye, and what is still pulled from it; a request that is placed elsewhere while it waits.

use idlewild_protocol::{
    DepartureCause, Epoch, JobEvent, JobFailure, JobInput, Plan, PlanReason, PlanRefusal, PlanStep, PlanTerms, Pull,
    PullPart, Way,
};

use super::bench::{Bench, ms, peer, proposal};
use crate::ownership::{Dropped, Ending, Input, Output, Preparation, StandbyNews};

fn goodbye(bench: &mut Bench, epoch: u32, notice_ms: u32) {
    bench.event(epoch, JobEvent::Leaving { epoch: Epoch(epoch), cause: DepartureCause::OwnerReturned, notice_ms });
}

const CANCEL: fn(u8, u32) -> Output = |n, epoch| Output::Cancel { worker: peer(n), epoch: Epoch(epoch) };

/// Peer 1 has said goodbye after three tokens; peer 2 goes on.
fn replaced(notice_ms: u32) -> Bench {
    let mut bench = Bench::running(3);
    goodbye(&mut bench, 1, notice_ms);
    bench.place_on(2);
    bench
}

const REST: Option<Pull> = Some(Pull { holder: idlewild_protocol::PeerId([1; 32]), part: PullPart::Rest });

#[test]
fn the_next_worker_may_pull_from_one_that_leaves_until_it_has_said_a_token() {
    let mut bench = replaced(2000);
    assert_eq!(bench.start().1.pull, REST);
    bench.accept(2);
    assert!(!bench.said.contains(&CANCEL(1, 1)), "it may still pull");
    bench.token(2, 3);
    assert!(bench.said.contains(&CANCEL(1, 1)), "it has all that it needs");
    assert_eq!(bench.machine.live(), Some((Epoch(2), peer(2))));
}

/// Peer 2 is to make the context from the ids.
fn with_a_beginner() -> Bench {
    let mut bench = Bench::running(3);
    bench.propose(1, PlanStep::Prepare { destination: peer(2), way: Way::Ids });
    bench
}

#[test]
fn a_destination_that_has_made_nothing_yet_begins_anew_and_pulls() {
    let mut bench = with_a_beginner();
    goodbye(&mut bench, 1, 2000);
    let why = Dropped::Released;
    assert!(bench.said.contains(&Output::Release { destination: peer(2), preparation: Preparation(1), why }));
    let (worker, start) = bench.start();
    assert_eq!((worker, start.epoch, start.pull), (peer(2), Epoch(2), REST));
    assert!(!bench.has_question(), "nobody is asked");
    assert!(!bench.said.contains(&CANCEL(1, 1)), "it may still pull");
}

#[test]
fn a_destination_that_has_made_some_of_it_or_cannot_pull_takes_over() {
    let mut has_some = with_a_beginner();
    has_some.standby(StandbyNews::Progress { held_tokens: 1 });
    for (mut bench, notice_ms) in [(has_some, 2000), (with_a_beginner(), 0)] {
        goodbye(&mut bench, 1, notice_ms);
        assert!(bench.said.iter().any(|said| matches!(said, Output::TakeOver { .. })), "{:?}", bench.said);
    }
}

#[test]
fn a_source_that_has_stopped_by_the_word_of_whoever_plans_is_pulled_from() {
    let split = |bench: &mut Bench, number, epoch| {
        let step = PlanStep::Commit { destination: peer(2), way: Way::StoppedSplit };
        let terms = PlanTerms::unweighed(PlanReason::Notice);
        bench.hear(Input::Proposed(Plan { terms, ..proposal(1, number, epoch, step) }));
    };
    let mut bench = Bench::running(3);
    split(&mut bench, 1, 1);
    let stopped = Output::StopAfter { worker: peer(1), epoch: Epoch(1), index: 3 };
    assert!(bench.said.contains(&stopped), "it may have been wrong: {:?}", bench.said);
    let (worker, start) = bench.start();
    assert_eq!((worker, start.epoch, start.pull), (peer(2), Epoch(2), REST));
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::HandedOver);
    bench.token(1, 3);
    assert_eq!(bench.machine.log().next_index(), 3, "its epoch is over");
    goodbye(&mut bench, 1, 2000);
    let why = Ending::Left(DepartureCause::OwnerReturned);
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, why, "its own word came later");
    bench.accept(2);
    assert!(!bench.said.contains(&CANCEL(1, 1)));
    bench.token(2, 3);
    assert!(bench.said.contains(&CANCEL(1, 1)));
    split(&mut bench, 2, 2);
    assert_eq!(bench.refusal(), Some(PlanRefusal::RuledOut));
    let mut bench = Bench::running(3);
    goodbye(&mut bench, 1, 2000);
    split(&mut bench, 1, 1);
    assert_eq!(bench.refusal(), Some(PlanRefusal::SourceLeaving), "it knows already");
    let mut bench = Bench::running(6);
    split(&mut bench, 1, 1);
    assert_eq!(bench.refusal(), Some(PlanRefusal::NearlyDone));
}

#[test]
fn a_request_does_not_wait_behind_itself_where_its_source_is_the_only_one_left() {
    let mut bench = replaced(2000);
    bench.fail(2, JobFailure::Busy);
    bench.place_on(1);
    assert!(bench.said.contains(&CANCEL(1, 1)), "{:?}", bench.said);
    assert_eq!(bench.start().1.pull, None);
}

#[test]
fn a_worker_that_leaves_is_let_go_when_its_notice_ends() {
    let mut bench = replaced(2000);
    bench.wait(ms(1999));
    assert!(!bench.said.contains(&CANCEL(1, 1)));
    bench.wait(ms(1));
    assert!(bench.said.contains(&CANCEL(1, 1)));
}

#[test]
fn a_worker_that_leaves_without_notice_holds_nothing() {
    let bench = replaced(0);
    assert_eq!(bench.start().1.pull, None);
    assert!(bench.said.contains(&CANCEL(1, 1)));
}

#[test]
fn a_goodbye_said_again_and_again_excuses_no_silence_beyond_the_first_notice() {
    let mut bench = Bench::running(3);
    for _ in 0..20 {
        goodbye(&mut bench, 1, 2000);
        bench.wait(ms(250));
    }
    assert_eq!(bench.machine.live(), None, "it has said no token for 5 s, and its notice was of 2 s");
    let ended = bench.machine.story()[0].ended.clone();
    assert_eq!(ended, Some((ms(3500), Ending::Left(DepartureCause::OwnerReturned))));
}

#[test]
fn a_second_goodbye_changes_neither_the_cause_nor_the_notice_of_the_first() {
    let mut bench = Bench::running(3);
    goodbye(&mut bench, 1, 2000);
    bench.wait(ms(500));
    bench.event(1, JobEvent::Leaving { epoch: Epoch(1), cause: DepartureCause::Battery, notice_ms: 60_000 });
    bench.place_on(2);
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::Left(DepartureCause::OwnerReturned));
    bench.wait(ms(1499));
    assert!(!bench.said.contains(&CANCEL(1, 1)));
    bench.wait(ms(1));
    assert!(bench.said.contains(&CANCEL(1, 1)));
}

#[test]
fn a_context_that_was_never_made_is_not_pulled() {
    let mut bench = Bench::new();
    bench.place_on(1);
    goodbye(&mut bench, 1, 2000);
    bench.place_on(2);
    let (_, start) = bench.start();
    assert!(start.pull.is_none() && matches!(start.input, JobInput::Chat { .. } | JobInput::Text { .. }), "{start:?}");
    assert!(bench.said.contains(&CANCEL(1, 1)));
}

#[test]
fn whoever_comes_after_the_next_may_pull_from_it_too_within_its_notice() {
    for (later, pull) in [(ms(500), REST), (ms(2500), None)] {
        let mut bench = replaced(2000);
        bench.wait(later);
        bench.fail(2, JobFailure::Busy);
        bench.place_on(3);
        assert_eq!(bench.start().1.pull, pull, "after {later:?}");
    }
}

#[test]
fn a_worker_that_left_and_closed_its_stream_is_not_cancelled() {
    let mut bench = replaced(2000);
    bench.lose(1);
    bench.accept(2);
    bench.tokens(2, 3..4);
    bench.wait(ms(2500));
    assert!(!bench.said.contains(&CANCEL(1, 1)));
    assert_ne!(bench.machine.live(), None, "the loss was of the epoch before");
}

#[test]
fn an_answer_that_ends_lets_go_of_whoever_left_before_the_last_word() {
    let mut bench = replaced(2000);
    bench.accept(2);
    bench.finish(2, "");
    let place = |wanted: &dyn Fn(&Output) -> bool| bench.said.iter().position(wanted).unwrap();
    let let_go = place(&|output| *output == CANCEL(1, 1));
    assert!(let_go < place(&|output| matches!(output, Output::Done { .. })));
}

#[test]
fn a_standby_that_takes_over_from_one_that_leaves_frees_it_with_its_first_token() {
    let mut bench = Bench::running(3);
    bench.prepared(1, 2);
    goodbye(&mut bench, 1, 2000);
    assert!(!bench.said.contains(&CANCEL(1, 1)));
    bench.token(2, 3);
    assert!(bench.said.contains(&CANCEL(1, 1)));
}

#[test]
fn a_request_that_only_waits_is_started_elsewhere_by_a_plan() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.accept(1);
    bench.propose(1, PlanStep::Replace { worker: peer(2), fallback: Some(peer(3)) });
    assert!(bench.said.contains(&CANCEL(1, 1)));
    let (worker, start) = bench.start();
    assert_eq!((worker, start.epoch, start.pull), (peer(2), Epoch(2), None));
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::Requeued);
    assert!(!bench.has_question(), "nobody is asked");
    bench.accept(2);
    bench.tokens(2, 0..2);
    bench.lose(2);
    assert_eq!(bench.question().excluded, [peer(2)], "the one that it waited at has not failed it");
}

#[test]
fn a_request_that_is_being_read_is_not_started_elsewhere() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.event(1, JobEvent::Prefilled { epoch: Epoch(1), done: 1, total: 3 });
    bench.propose(1, PlanStep::Replace { worker: peer(2), fallback: None });
    assert_eq!(bench.refusal(), Some(PlanRefusal::Begun));
    assert_eq!(bench.machine.live(), Some((Epoch(1), peer(1))));
}
