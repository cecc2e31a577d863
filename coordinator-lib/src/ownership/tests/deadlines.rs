//! Silence.

use core::time::Duration;

use idlewild_protocol::{Epoch, JobEvent, PlaceOutcome};

use super::bench::{Bench, ms, peer, terms};
use crate::ownership::{Ending, Output, Silence};

/// What the product promises for a frozen worker, prefill elsewhere not counted.
const FROZEN_PAUSE_MAX: Duration = Duration::from_secs(4);

fn prefilled(done: u32) -> JobEvent {
    JobEvent::Prefilled { epoch: Epoch(1), done, total: 100 }
}

/// Time until another worker is told to start, where the coordinator is frozen too.
fn pause_until_restart(bench: &mut Bench) -> Duration {
    let from = bench.now;
    bench.said.clear();
    while !bench.said.iter().any(|o| matches!(o, Output::Start { .. })) {
        bench.wait(ms(10));
        if bench.said.iter().any(|o| matches!(o, Output::PlaceAlone(_))) {
            bench.said.clear();
            bench.place_on(2);
        }
        assert!(bench.now < from + ms(60_000), "it never starts again");
    }
    bench.now.saturating_sub(from)
}

#[test]
fn a_frozen_worker_pauses_the_answer_no_longer_than_promised() {
    for tokens in [0, 1, 9] {
        let mut bench = Bench::running(tokens);
        let pause = pause_until_restart(&mut bench);
        assert!(pause < FROZEN_PAUSE_MAX, "{pause:?} after {tokens} tokens");
    }
}

#[test]
fn a_frozen_worker_is_cancelled_before_another_starts() {
    let mut bench = Bench::running(2);
    bench.wait(ms(3500));
    assert_eq!(bench.said.first(), Some(&Output::Cancel { worker: peer(1), epoch: Epoch(1) }));
    assert_eq!(bench.machine.story()[0].ended, Some((ms(3500), Ending::Silent(Silence::BetweenTokens))));
    assert_eq!(bench.question().excluded, [peer(1)]);
}

#[test]
fn every_token_renews_the_deadline() {
    let mut bench = Bench::running(0);
    for index in 0..8 {
        bench.wait(ms(3400));
        bench.token(1, index);
    }
    assert_eq!(bench.machine.live(), Some((Epoch(1), peer(1))));
}

#[test]
fn a_token_said_again_renews_nothing() {
    let mut bench = Bench::running(2);
    bench.wait(ms(3000));
    bench.token(1, 1);
    bench.event(1, prefilled(1));
    bench.wait(ms(600));
    assert_eq!(bench.machine.live(), None);
}

#[test]
fn reading_the_prompt_is_a_sign_of_life() {
    let mut bench = Bench::running(0);
    for done in 1..10 {
        bench.wait(ms(3400));
        bench.event(1, prefilled(done * 10));
    }
    assert_eq!(bench.machine.live(), Some((Epoch(1), peer(1))));
    bench.wait(ms(3500));
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::Silent(Silence::BeforeFirstToken));
}

#[test]
fn signs_of_life_without_a_token_are_not_enough_for_ever() {
    let mut bench = Bench::running(0);
    while bench.machine.live().is_some() {
        bench.wait(ms(1000));
        bench.event(1, prefilled(1));
        assert!(bench.now <= Duration::from_mins(16));
    }
    assert_eq!(bench.machine.story()[0].ended.clone().unwrap().1, Ending::Silent(Silence::Endless));
}

#[test]
fn a_wait_that_the_plan_named_is_excused_twice_over() {
    let mut bench = Bench::new();
    let mut on_disk = terms(1, None);
    on_disk.wait_s = 10.0;
    bench.reply(PlaceOutcome::Run { worker: peer(1), fallback: None }, vec![on_disk]);
    bench.wait(ms(23_000));
    assert!(bench.machine.live().is_some());
    bench.wait(ms(600));
    assert_eq!(bench.machine.live(), None);
}

#[test]
fn no_plan_can_excuse_silence_for_ever() {
    for wait_s in [1e12, f64::MAX] {
        let mut bench = Bench::new();
        let mut absurd = terms(1, None);
        absurd.wait_s = wait_s;
        bench.reply(PlaceOutcome::Run { worker: peer(1), fallback: None }, vec![absurd]);
        bench.wait(ms(124_000));
        assert_eq!(bench.machine.live(), None);
    }
}

#[test]
fn a_slow_machine_gets_more_time_with_every_try() {
    let mut bench = Bench::new();
    bench.place_on(1);
    bench.wait(ms(3500));
    assert_eq!(bench.machine.live(), None);
    bench.place_on(2);
    bench.wait(ms(6900));
    assert_eq!(bench.machine.live(), Some((Epoch(2), peer(2))));
    bench.wait(ms(200));
    assert_eq!(bench.machine.live(), None);
}

#[test]
fn a_coordinator_that_does_not_answer_is_not_waited_for() {
    let mut bench = Bench::new();
    assert!(matches!(bench.take()[..], [Output::AskPlacement(_)]));
    bench.wait(ms(299));
    assert_eq!(bench.take(), []);
    bench.wait(ms(1));
    assert!(matches!(bench.take()[..], [Output::PlaceAlone(_)]));
}

/// An answer in a swarm whose every worker takes so long for each token, the first included.
fn answer_at(per_token: Duration) -> Bench {
    let mut bench = Bench::new();
    let (mut epoch, mut next_at) = (0, per_token);
    while !bench.machine.is_over() && bench.now < Duration::from_hours(1) {
        if bench.has_question() {
            epoch += 1;
            bench.place_on(1 + (epoch % 3) as u8);
            bench.accept(epoch);
            next_at = bench.now + per_token;
        }
        bench.wait(ms(50));
        if bench.now >= next_at && bench.machine.live().is_some() {
            let next = bench.machine.log().next_index();
            if next < 10 {
                bench.token(epoch, next);
            } else {
                bench.finish(epoch, "");
            }
            next_at = bench.now + per_token;
        }
    }
    bench
}

#[test]
fn a_swarm_that_needs_five_seconds_for_every_token_finishes_the_answer() {
    for (per_token_s, assignments_max) in [(1, 1), (5, 3), (12, 5), (25, 7)] {
        let bench = answer_at(Duration::from_secs(per_token_s));
        assert!(
            matches!(bench.said.last(), Some(Output::Done { output_tokens: 10, .. })),
            "at {per_token_s} s a token"
        );
        let assignments = bench.machine.story().len();
        assert!(assignments <= assignments_max, "{assignments} assignments at {per_token_s} s a token");
    }
}

#[test]
fn patience_between_tokens_doubles_with_every_silent_worker_and_is_bounded() {
    let mut bench = Bench::running(1);
    for (epoch, patience_ms) in (1..).zip([3500, 7000, 14_000, 28_000, 28_000]) {
        bench.wait(ms(patience_ms - 1));
        assert!(bench.machine.live().is_some(), "epoch {epoch}");
        bench.wait(ms(1));
        assert_eq!(
            bench.machine.story().last().unwrap().ended.clone().unwrap().1,
            Ending::Silent(Silence::BetweenTokens)
        );
        bench.place_on(epoch + 1);
        bench.accept(u32::from(epoch) + 1);
        bench.token(u32::from(epoch) + 1, u32::from(epoch));
    }
}
