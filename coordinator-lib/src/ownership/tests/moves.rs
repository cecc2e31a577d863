//! How a request goes on elsewhere.

use idlewild_protocol::{DepartureCause, Epoch, JobEvent, JobFailure, JobInput, Unfit};

use super::bench::{Bench, PROMPT, ms, peer, spec, token};
use crate::ownership::{Ending, Input, LossReason, Output};

fn leaving(epoch: u32) -> JobEvent {
    JobEvent::Leaving { epoch: Epoch(epoch), cause: DepartureCause::OwnerReturned, notice_ms: 2000 }
}

#[test]
fn a_lost_worker_is_replaced_at_the_next_token() {
    let mut bench = Bench::running(3);
    bench.lose(1);
    let question = bench.question();
    assert_eq!((question.prompt_tokens, question.done_tokens), (3, 3));
    assert_eq!(question.excluded, [peer(1)]);
    bench.place_on(2);
    let (worker, start) = bench.start();
    assert_eq!((worker, start.epoch), (peer(2), Epoch(2)));
    let generated = vec![token(0), token(1), token(2)];
    assert_eq!(start.input, JobInput::Tokens { prompt: PROMPT.to_vec(), generated });
    let why = Ending::Lost(LossReason::Closed);
    assert!(bench.said.contains(&Output::Moved { from: peer(1), to: peer(2), at_index: 3, why }));
    bench.accept(2);
    bench.tokens(2, 3..5);
    bench.finish(2, "");
    assert_eq!(bench.text(), "3 4 ");
    assert!(bench.machine.is_over());
}

#[test]
fn a_worker_lost_before_it_accepted_is_replaced_with_the_clients_own_words() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.lose(1);
    bench.place_on(2);
    assert_eq!(bench.start().1.input, bench.machine.spec().input);
    bench.accept(2);
    assert_eq!(bench.said.iter().filter(|o| matches!(o, Output::Prompt { .. })).count(), 1);
}

#[test]
fn a_prompt_is_told_to_the_client_once_however_often_it_moves() {
    let mut bench = Bench::running(1);
    bench.lose(1);
    bench.place_on(2);
    bench.accept(2);
    assert!(!bench.said.iter().any(|o| matches!(o, Output::Prompt { .. })));
}

#[test]
fn a_worker_that_says_goodbye_goes_on_until_another_is_found() {
    let mut bench = Bench::running(3);
    bench.event(1, leaving(1));
    assert_eq!(bench.question().excluded, [peer(1)]);
    bench.token(1, 3);
    assert_eq!(bench.machine.log().next_index(), 4, "its epoch is live still");
    bench.place_on(2);
    bench.token(1, 4);
    assert_eq!(bench.machine.log().next_index(), 4, "its epoch is over");
    let (_, start) = bench.start();
    assert!(matches!(start.input, JobInput::Tokens { generated, .. } if generated.len() == 4));
    assert_eq!(bench.machine.story()[0].ended, Some((ms(0), Ending::Left(DepartureCause::OwnerReturned))));
}

#[test]
fn a_worker_that_says_goodbye_twice_is_asked_about_once() {
    let mut bench = Bench::running(3);
    bench.event(1, leaving(1));
    bench.event(1, leaving(1));
    assert_eq!(bench.said.iter().filter(|o| matches!(o, Output::AskPlacement(_))).count(), 1);
}

#[test]
fn a_worker_that_says_goodbye_may_still_finish() {
    let mut bench = Bench::running(3);
    bench.event(1, leaving(1));
    bench.nowhere(&[(1, Unfit::Leaving)]);
    assert!(!bench.machine.is_over(), "while it goes on there is no reason to give up");
    bench.wait(ms(1000));
    bench.token(1, 3);
    bench.finish(1, "");
    assert!(bench.machine.is_over());
    assert!(matches!(bench.said.last(), Some(Output::Done { output_tokens: 4, .. })));
}

#[test]
fn a_leaver_that_is_gone_before_another_is_found_is_replaced_when_one_is() {
    let mut bench = Bench::running(3);
    bench.event(1, leaving(1));
    bench.hear(Input::Lost { epoch: Epoch(1), why: LossReason::Goodbye(DepartureCause::OwnerReturned) });
    assert_eq!(bench.machine.live(), None);
    bench.token(1, 3);
    bench.place_on(2);
    assert_eq!(bench.machine.live(), Some((Epoch(2), peer(2))));
    assert_eq!(bench.machine.log().next_index(), 3);
}

#[test]
fn the_story_tells_every_assignment() {
    let mut bench = Bench::running(2);
    bench.lose(1);
    bench.place_on(2);
    bench.fail(2, JobFailure::Busy);
    bench.place_on(3);
    bench.accept(3);
    bench.tokens(3, 2..4);
    bench.finish(3, "");
    let told: Vec<_> = bench.machine.story().iter().map(|a| (a.epoch.0, a.worker, a.from_index)).collect();
    assert_eq!(told, [(1, peer(1), 0), (2, peer(2), 2), (3, peer(3), 2)]);
    let endings: Vec<String> = bench.machine.story().iter().map(|a| a.ended.clone().unwrap().1.to_string()).collect();
    assert_eq!(endings, ["closed the connection", "no room for another request", "finished"]);
    assert_eq!(bench.machine.story()[2].plan.terms[0].peer, peer(3));
}

#[test]
fn output_beyond_the_estimate_is_expected_to_go_on_a_little() {
    let spec = crate::ownership::RequestSpec { max_tokens: 1000, expected_output_tokens: 5, ..spec() };
    let mut bench = Bench::with(spec, crate::ownership::Limits::default());
    bench.place_on(1);
    bench.accept(1);
    bench.tokens(1, 0..100);
    bench.lose(1);
    assert_eq!(bench.question().expected_output_tokens, 125);
}

#[test]
fn output_is_never_expected_beyond_what_was_asked_for() {
    let mut bench = Bench::running(9);
    bench.lose(1);
    assert_eq!(bench.question().expected_output_tokens, 10);
}
