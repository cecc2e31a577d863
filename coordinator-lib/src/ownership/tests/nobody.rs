//! Failures, whom they exclude, and the error when nobody can serve.

use core::time::Duration;

use idlewild_protocol::{JobFailure, Unfit};

use super::bench::{Bench, ms, peer};
use crate::ownership::{Ending, Limits, LossReason, Output, PeerReason, RequestErrorKind, Why};

const TOO_LONG: Unfit = Unfit::ContextTooLong { context_tokens: 4096 };

/// What the product promises: an error within 2 s.
const ERROR_WITHIN: Duration = Duration::from_secs(2);

/// Answers every question with nowhere until the request fails; how long that took.
fn time_to_failure(bench: &mut Bench, why: &[(u8, Unfit)]) -> Duration {
    let from = bench.now;
    while !bench.machine.is_over() {
        if bench.said.iter().any(|o| matches!(o, Output::AskPlacement(_) | Output::PlaceAlone(_))) {
            bench.said.clear();
            bench.nowhere(why);
        } else {
            bench.wait(ms(10));
        }
        assert!(bench.now < from + ms(60_000), "it never ends");
    }
    bench.now.saturating_sub(from)
}

#[test]
fn what_a_moment_will_not_change_fails_at_once() {
    let mut bench = Bench::new();
    let took =
        time_to_failure(&mut bench, &[(1, TOO_LONG), (2, Unfit::NoModel), (3, Unfit::OwnerPresent), (4, TOO_LONG)]);
    assert_eq!(took, ms(0));
    let reason = |(n, why)| PeerReason { peer: peer(n), why: Why::Unfit(why) };
    let why = [(1, TOO_LONG), (2, Unfit::NoModel), (3, Unfit::OwnerPresent), (4, TOO_LONG)];
    assert_eq!(bench.error().peers, why.map(reason));
}

#[test]
fn what_a_moment_may_change_is_asked_about_again_within_the_promise() {
    for (why, kind, is_worth_another_try) in [
        (Unfit::Leaving, RequestErrorKind::NoPeer, true),
        (Unfit::Unreachable, RequestErrorKind::NoPeer, true),
        (Unfit::JustFailed, RequestErrorKind::NoPeer, true),
        // Who has just woken up sees nobody but itself.
        (Unfit::OwnerPresent, RequestErrorKind::NoPeer, true),
        (Unfit::NoModel, RequestErrorKind::NoModel, false),
    ] {
        let mut bench = Bench::new();
        let took = time_to_failure(&mut bench, &[(1, why)]);
        assert!(took > ms(500) && took < ERROR_WITHIN, "{took:?}");
        assert_eq!(bench.error().kind, kind);
        assert_eq!(bench.error().retry_after.is_some(), is_worth_another_try);
    }
}

#[test]
fn a_model_is_not_called_missing_where_a_peer_that_had_it_was_lost() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.lose(1);
    let _ = time_to_failure(&mut bench, &[(2, Unfit::NoModel)]);
    assert_eq!(bench.error().kind, RequestErrorKind::NoPeer);
    assert!(bench.error().retry_after.is_some());
}

#[test]
fn an_answer_that_has_begun_waits_longer_for_somebody_to_go_on_with_it() {
    let mut bench = Bench::running(2);
    bench.lose(1);
    let took = time_to_failure(&mut bench, &[(1, Unfit::OwnerPresent)]);
    assert!(took > ms(8000) && took < ms(10_500), "{took:?}");
}

/// Places on peer 1, which refuses, until the machine is over or `patience` has passed; how often it refused.
fn refuse_for(bench: &mut Bench, first_epoch: u32, patience: Duration) -> u32 {
    let (until, mut refusals) = (bench.now + patience, 0);
    while !bench.machine.is_over() && bench.now < until {
        if bench.said.iter().any(|o| matches!(o, Output::AskPlacement(_) | Output::PlaceAlone(_))) {
            bench.said.clear();
            if bench.question().excluded.is_empty() {
                bench.place_on(1);
                bench.fail(first_epoch + refusals, JobFailure::Busy);
                refusals += 1;
            } else {
                bench.nowhere(&[(1, Unfit::JustFailed)]);
            }
        } else {
            bench.wait(ms(10));
        }
    }
    refusals
}

#[test]
fn a_peer_that_stays_full_is_no_failure_of_the_request() {
    let mut bench = Bench::new();
    assert!(refuse_for(&mut bench, 1, ms(60_000)) > 2);
    assert!(bench.now < ERROR_WITHIN, "{:?}", bench.now);
    assert_eq!(bench.error().kind, RequestErrorKind::NoPeer);
    let why = Why::Tried(Ending::Failed(JobFailure::Busy));
    assert_eq!(bench.error().peers, [PeerReason { peer: peer(1), why }]);
}

#[test]
fn an_answer_waits_for_the_only_peer_until_its_engine_is_back() {
    let mut bench = Bench::running(2);
    bench.fail(1, JobFailure::Engine("killed".to_owned()));
    let refusals = refuse_for(&mut bench, 2, ms(7000));
    assert!(refusals > 9, "more than any bound on failures: {refusals}");
    assert_eq!(bench.machine.story().len(), 2, "one refusal tells all");
    while bench.machine.live().is_none() {
        bench.wait(ms(10));
        bench.place_on(1);
    }
    let (epoch, _) = bench.machine.live().unwrap();
    bench.accept(epoch.0);
    bench.tokens(epoch.0, 2..4);
    bench.finish(epoch.0, "");
    assert!(matches!(bench.said.last(), Some(Output::Done { output_tokens: 4, .. })));
}

#[test]
fn nobody_answers_at_all_and_the_client_still_hears_in_time() {
    let mut bench = Bench::new();
    bench.wait(ERROR_WITHIN);
    assert!(matches!(bench.said.last(), Some(Output::Failed(_))));
}

#[test]
fn a_peer_that_appears_in_time_serves() {
    let mut bench = Bench::new();
    bench.nowhere(&[(1, Unfit::Unreachable)]);
    bench.wait(ms(400));
    bench.place_on(1);
    bench.accept(1);
    bench.tokens(1, 0..1);
    bench.finish(1, "");
    assert!(matches!(bench.said.last(), Some(Output::Done { .. })));
}

#[test]
fn the_only_peer_gets_a_second_chance_after_a_passing_failure() {
    let mut bench = Bench::running(2);
    bench.lose(1);
    assert_eq!(bench.question().excluded, [peer(1)]);
    bench.nowhere(&[(1, Unfit::JustFailed)]);
    bench.wait(ms(400));
    assert_eq!(bench.question().excluded, [], "nobody else is left");
    bench.place_on(1);
    bench.accept(2);
    bench.tokens(2, 2..4);
    bench.finish(2, "");
    assert!(bench.machine.is_over());
}

#[test]
fn a_lasting_failure_excludes_for_the_whole_request() {
    for failure in
        [JobFailure::Model("corrupt".to_owned()), JobFailure::PromptTooLong { prompt_tokens: 9, context_tokens: 8 }]
    {
        let mut bench = Bench::new();
        bench.place_on(1);
        bench.fail(1, failure);
        bench.nowhere(&[(1, Unfit::JustFailed), (2, Unfit::Unreachable)]);
        bench.wait(ms(400));
        assert_eq!(bench.question().excluded, [peer(1)]);
    }
}

#[test]
fn a_coordinator_that_names_an_excluded_peer_is_not_obeyed() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.fail(1, JobFailure::Model("corrupt".to_owned()));
    bench.place_on(1);
    assert_eq!(bench.machine.live(), None);
}

#[test]
fn a_passing_failure_is_forgiven_after_a_while() {
    let mut bench = Bench::running(1);
    bench.lose(1);
    bench.place_on(2);
    bench.accept(2);
    for index in 1..10 {
        bench.wait(ms(3400));
        bench.token(2, index);
    }
    bench.lose(2);
    assert_eq!(bench.question().excluded, [peer(2)]);
}

#[test]
fn a_prompt_too_long_for_one_peer_is_placed_by_its_real_length() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.fail(1, JobFailure::PromptTooLong { prompt_tokens: 3000, context_tokens: 2048 });
    assert_eq!(bench.question().prompt_tokens, 3000);
    bench.nowhere(&[(1, Unfit::JustFailed), (2, TOO_LONG), (3, Unfit::NoModel)]);
    assert_eq!(bench.error().kind, RequestErrorKind::PromptTooLong { prompt_tokens: 3000, context_tokens: 4096 });
    assert_eq!(bench.error().retry_after, None);
}

#[test]
fn a_length_that_was_only_guessed_does_not_refuse_a_request_that_may_fit() {
    let mut bench = Bench::new();
    bench.nowhere(&[(1, TOO_LONG), (2, Unfit::NoModel)]);
    assert_eq!(bench.question().prompt_tokens, 1, "a quarter of the guess");
    bench.place_on(1);
    bench.accept(1);
    bench.lose(1);
    assert_eq!(bench.question().prompt_tokens, 3, "counted");
    bench.nowhere(&[(1, TOO_LONG)]);
    assert_eq!(bench.error().kind, RequestErrorKind::PromptTooLong { prompt_tokens: 3, context_tokens: 4096 });
}

#[test]
fn a_prompt_that_is_too_long_by_any_count_is_refused_by_the_guess() {
    let mut bench = Bench::new();
    bench.nowhere(&[(1, TOO_LONG)]);
    bench.nowhere(&[(1, Unfit::ContextTooLong { context_tokens: 512 }), (2, TOO_LONG)]);
    assert_eq!(bench.error().kind, RequestErrorKind::PromptTooLong { prompt_tokens: 4, context_tokens: 4096 });
}

#[test]
fn a_request_that_no_model_can_use_fails_at_once() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.fail(1, JobFailure::BadInput("unknown role".to_owned()));
    assert_eq!(bench.error().kind, RequestErrorKind::BadInput("unknown role".to_owned()));
}

#[test]
fn a_peer_that_cannot_use_what_another_could_is_only_replaced() {
    let mut bench = Bench::running(2);
    bench.lose(1);
    bench.place_on(2);
    bench.fail(2, JobFailure::BadInput("unknown token".to_owned()));
    assert!(!bench.machine.is_over());
    assert!(bench.question().excluded.contains(&peer(2)));
}

#[test]
fn a_prompt_that_crashes_engines_does_not_go_round_the_swarm() {
    let mut bench = Bench::new();
    for n in 1..=3 {
        bench.place_on(n);
        bench.fail(u32::from(n), JobFailure::Engine("signal 6".to_owned()));
    }
    assert_eq!(bench.error().kind, RequestErrorKind::TriedTooOften { tried: 3 });
    assert_eq!(bench.error().peers.len(), 3);
}

#[test]
fn engine_failures_are_forgotten_when_tokens_come() {
    let mut bench = Bench::new();
    for n in 1..=6_u8 {
        let epoch = u32::from(n);
        bench.place_on(n);
        bench.accept(epoch);
        bench.token(epoch, epoch - 1);
        bench.fail(epoch, JobFailure::Engine("signal 9".to_owned()));
    }
    assert!(!bench.machine.is_over());
}

#[test]
fn tries_without_a_token_are_bounded() {
    let mut bench = Bench::new();
    for n in 1..=Limits::default().fruitless_max {
        bench.place_on(n as u8);
        bench.lose(n);
    }
    assert!(matches!(bench.error().kind, RequestErrorKind::TriedTooOften { tried: 6 }));
}

#[test]
fn an_error_says_why_in_words() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.lose(1);
    let _ = time_to_failure(&mut bench, &[(1, Unfit::JustFailed), (2, Unfit::OwnerPresent)]);
    let error = bench.error();
    let lost = Why::Tried(Ending::Lost(LossReason::Closed));
    assert_eq!(error.peers[0], PeerReason { peer: peer(1), why: lost });
    let words = error.to_string();
    assert!(words.starts_with("no peer can serve this request now: "), "{words}");
    assert!(
        words.contains("closed the connection") && words.contains("takes no work now (its owner, a pause or a rule)"),
        "{words}"
    );
}

#[test]
fn ids_that_another_worker_made_are_doubted_before_the_one_that_cannot_use_them() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.accept(1);
    bench.lose(1);
    bench.place_on(2);
    assert!(matches!(bench.start().1.input, idlewild_protocol::JobInput::Tokens { .. }));
    bench.fail(2, JobFailure::BadInput("unknown token".to_owned()));
    assert!(!bench.machine.is_over());
    assert_eq!(bench.machine.log().prompt(), None, "nothing was generated from them");
    bench.wait(ms(31_000));
    if bench.has_question() {
        assert!(!bench.question().excluded.contains(&peer(2)), "perhaps it was not its fault");
    }
    let mut again = Bench::running(2);
    again.lose(1);
    again.place_on(2);
    again.fail(2, JobFailure::BadInput("unknown token".to_owned()));
    assert!(again.machine.log().prompt().is_some(), "what was said from them stays said");
}
