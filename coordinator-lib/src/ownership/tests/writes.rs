//! Who may write the log, and what.

use idlewild_protocol::{Epoch, FinishReason, JobEvent, PlaceOutcome, PlaceReply, Term, TokenId};

use super::bench::{Bench, PROMPT, ms, peer, token};
use crate::ownership::{Ending, Fault, Input, Output};

#[test]
fn an_undisturbed_request_gives_every_token_and_ends() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.accept(1);
    bench.tokens(1, 0..3);
    bench.finish(1, "end");
    assert_eq!(bench.text(), "0 1 2 end");
    assert_eq!(bench.machine.log().generated(), [token(0), token(1), token(2)]);
    let done = Output::Done { reason: FinishReason::Stop, prompt_tokens: 3, output_tokens: 3 };
    assert_eq!(bench.said.last(), Some(&done));
    assert!(bench.said.contains(&Output::Prompt { tokens: 3 }));
    assert!(bench.machine.is_over());
    assert_eq!(bench.machine.poll_timeout(), None);
}

#[test]
fn a_token_of_an_epoch_that_is_not_live_is_not_written() {
    let mut bench = Bench::running(2);
    bench.lose(1);
    bench.token(1, 2);
    bench.place_on(2);
    bench.token(1, 2);
    bench.finish(1, "");
    assert_eq!(bench.machine.log().next_index(), 2);
    assert!(!bench.machine.is_over());
}

#[test]
fn a_token_that_names_another_epoch_than_its_stream_is_not_written() {
    let mut bench = Bench::running(2);
    bench.event(1, JobEvent::Token { epoch: Epoch(2), index: 2, id: token(2), text: String::new() });
    bench.event(2, JobEvent::Token { epoch: Epoch(1), index: 2, id: token(2), text: String::new() });
    assert_eq!(bench.machine.log().next_index(), 2);
}

#[test]
fn a_token_said_twice_is_written_once() {
    let mut bench = Bench::running(2);
    bench.token(1, 1);
    bench.token(1, 0);
    bench.token(1, 2);
    assert_eq!(bench.text(), "2 ");
    assert_eq!(bench.machine.log().next_index(), 3);
}

/// What no sound worker says ends its assignment: it is cancelled, and left out of the next placement for good.
fn check_fault(speak: impl Fn(&mut Bench), fault: Fault) {
    let mut bench = Bench::running(2);
    let before = bench.machine.log().clone();
    speak(&mut bench);
    assert!(bench.said.contains(&Output::Cancel { worker: peer(1), epoch: Epoch(1) }), "{fault}");
    assert_eq!(bench.question().excluded, [peer(1)], "{fault}");
    assert_eq!(bench.machine.log(), &before, "{fault}");
    let ended = bench.machine.story()[0].ended.clone().unwrap();
    assert_eq!(ended.1, Ending::Faulty(fault));
}

#[test]
fn a_worker_that_breaks_the_rules_is_replaced() {
    check_fault(|bench| bench.token(1, 3), Fault::Gap);
    let other = JobEvent::Accepted { epoch: Epoch(1), prompt: vec![TokenId(1)] };
    check_fault(|bench| bench.event(1, other.clone()), Fault::OtherPrompt);
    let none = JobEvent::Accepted { epoch: Epoch(1), prompt: Vec::new() };
    check_fault(|bench| bench.event(1, none.clone()), Fault::NoPrompt);
}

#[test]
fn a_worker_that_answers_before_it_accepts_is_replaced() {
    for speak in [|bench: &mut Bench| bench.token(1, 0), |bench: &mut Bench| bench.finish(1, "x")] {
        let mut bench = Bench::new();
        bench.place_on(1);
        speak(&mut bench);
        assert_eq!(bench.machine.story()[0].ended, Some((ms(0), Ending::Faulty(Fault::NotAccepted))));
        assert_eq!(bench.text(), "");
        assert!(!bench.machine.is_over());
    }
}

#[test]
fn more_tokens_than_asked_for_are_not_written() {
    let mut bench = Bench::running(10);
    bench.token(1, 10);
    assert_eq!(bench.machine.log().next_index(), 10);
    assert_eq!(bench.machine.story()[0].ended, Some((ms(0), Ending::Faulty(Fault::TooMany))));
}

#[test]
fn an_answer_to_an_earlier_question_is_ignored() {
    let mut bench = Bench::new();
    let first = bench.question();
    bench.wait(ms(300));
    assert!(bench.question().attempt > first.attempt);
    let outcome = PlaceOutcome::Run { worker: peer(9), fallback: None };
    let late = PlaceReply { request: first.request, attempt: first.attempt, term: Term(1), outcome, terms: Vec::new() };
    bench.hear(Input::Placed(late));
    assert_eq!(bench.machine.live(), None);
    bench.place_on(1);
    assert_eq!(bench.machine.live(), Some((Epoch(1), peer(1))));
}

#[test]
fn an_answer_that_comes_twice_starts_one_assignment() {
    let mut bench = Bench::new();
    let question = bench.question();
    bench.place_on(1);
    let outcome = PlaceOutcome::Run { worker: peer(2), fallback: None };
    let (request, attempt) = (question.request, question.attempt);
    bench.hear(Input::Placed(PlaceReply { request, attempt, term: Term(2), outcome, terms: Vec::new() }));
    assert_eq!(bench.machine.story().len(), 1);
}

#[test]
fn a_client_that_goes_away_stops_the_worker() {
    let mut bench = Bench::running(2);
    bench.hear(Input::ClientGone);
    assert_eq!(bench.take(), [Output::Cancel { worker: peer(1), epoch: Epoch(1) }]);
    assert!(bench.machine.is_over());
    bench.token(1, 2);
    bench.finish(1, "x");
    bench.wait(ms(60_000));
    assert_eq!(bench.take(), []);
    assert_eq!(bench.machine.story()[0].ended, Some((ms(0), Ending::ClientGone)));
}

#[test]
fn the_first_start_carries_the_clients_own_words() {
    let mut bench = Bench::new();
    bench.place_on(1);
    let (worker, start) = bench.start();
    assert_eq!((worker, start.epoch), (peer(1), Epoch(1)));
    assert_eq!(start.input, bench.machine.spec().input);
    bench.accept(1);
    assert_eq!(bench.machine.log().prompt(), Some(PROMPT.as_slice()));
}
