//! Silence in a planned move: every step has its deadline.

use super::bench::{Bench, ms, peer, terms};
use crate::ownership::{Dropped, Ending, Input, Output, Preparation, Silence, StandbyNews};
use idlewild_protocol::{MoveTerms, PeerTerms, PlanStep, Way};

/// Two tokens are written, and peer 2 begins to prepare; the source says a token a second.
fn preparing() -> Bench {
    let mut bench = Bench::running(2);
    bench.propose(1, PlanStep::Prepare { destination: peer(2), way: Way::Ids });
    bench
}

fn commit() -> PlanStep {
    PlanStep::Commit { destination: peer(2), way: Way::Ids }
}

/// Lets the source go on for so many tokens.
fn go_on(bench: &mut Bench, tokens: u32) {
    for _ in 0..tokens {
        bench.wait(ms(1000));
        let next = bench.machine.log().next_index();
        bench.token(1, next);
    }
}

fn dropped(bench: &Bench) -> Option<Dropped> {
    bench.said.iter().find_map(|o| if let Output::Release { why, .. } = o { Some(why.clone()) } else { None })
}

#[test]
fn a_destination_that_is_silent_while_it_prepares_is_given_up() {
    let mut bench = preparing();
    go_on(&mut bench, 4);
    assert!(bench.machine.standby().is_some());
    go_on(&mut bench, 2);
    assert_eq!(dropped(&bench), Some(Dropped::Silent));
    assert_eq!(bench.machine.live().unwrap().1, peer(1));
}

#[test]
fn progress_renews_the_deadline_and_a_word_without_progress_does_not() {
    for (grows, is_kept) in [(true, true), (false, false)] {
        let mut bench = preparing();
        for step in 1..7 {
            go_on(&mut bench, 1);
            bench.standby(StandbyNews::Progress { held_tokens: if grows { step.min(4) } else { 1 } });
        }
        assert_eq!(bench.machine.standby().is_some(), is_kept);
    }
}

#[test]
fn what_a_destination_says_again_is_no_news() {
    let mut bench = preparing();
    bench.standby(StandbyNews::Progress { held_tokens: 4 });
    bench.said.clear();
    for held_tokens in [4, 3, 0] {
        bench.standby(StandbyNews::Progress { held_tokens });
    }
    assert_eq!(bench.said, [], "nobody is told");
    bench.standby(StandbyNews::Progress { held_tokens: 5 });
    assert!(matches!(bench.said[..], [Output::Standby(Some(_))]), "{:?}", bench.said);
}

#[test]
fn a_destination_that_has_all_may_be_silent_and_one_that_is_paused_too() {
    let mut bench = Bench::running(2);
    bench.machine.limits.token_silence = ms(1_000_000);
    bench.prepared(1, 2);
    bench.wait(ms(60_000));
    assert!(bench.machine.standby().is_some());
    bench.propose(1, PlanStep::Pause { destination: peer(2) });
    bench.token(1, 2);
    bench.wait(ms(60_000));
    assert!(bench.machine.standby().is_some());
    bench.propose(1, PlanStep::Hold { destination: peer(2) });
    bench.wait(ms(4999));
    assert!(bench.machine.standby().is_some(), "it owes a word since now");
    bench.wait(ms(1));
    assert_eq!(dropped(&bench), Some(Dropped::Silent));
}

#[test]
fn signs_of_life_are_not_enough_for_ever() {
    let mut bench = Bench::running(2);
    bench.machine.limits.token_silence = ms(10_000_000);
    bench.machine.limits.preparation = ms(8000);
    bench.propose(1, PlanStep::Prepare { destination: peer(2), way: Way::Ids });
    for held_tokens in 1..4 {
        bench.wait(ms(2500));
        bench.standby(StandbyNews::Progress { held_tokens });
    }
    bench.wait(ms(500));
    assert_eq!(dropped(&bench), Some(Dropped::Endless));
}

#[test]
fn a_wait_that_the_proposal_named_is_excused() {
    let mut bench = Bench::running(2);
    bench.machine.limits.token_silence = ms(10_000_000);
    let mut proposal = super::bench::proposal(1, 1, 1, PlanStep::Prepare { destination: peer(2), way: Way::Ids });
    let slow = PeerTerms { wait_s: 10.0, ..terms(2, None) };
    proposal.terms.weighed = vec![MoveTerms { terms: slow, veto: None, preparation: None, test: None }];
    bench.hear(Input::Proposed(proposal));
    bench.wait(ms(24_900));
    assert!(bench.machine.standby().is_some());
    bench.wait(ms(100));
    assert_eq!(dropped(&bench), Some(Dropped::Silent));
}

#[test]
fn a_source_that_does_not_stop_is_not_waited_for() {
    let mut bench = preparing();
    bench.catch_up();
    bench.propose(1, commit());
    bench.token(1, 2);
    bench.said.clear();
    bench.wait(ms(1999));
    assert_eq!(bench.machine.live().unwrap().1, peer(1));
    bench.wait(ms(1));
    assert_eq!(bench.said[0], Output::Cancel { worker: peer(1), epoch: idlewild_protocol::Epoch(1) });
    let (destination, preparation) = (peer(2), Preparation(1));
    let epoch = idlewild_protocol::Epoch(2);
    assert!(
        bench.said.contains(&Output::TakeOver { destination, preparation, epoch, from_index: 3 }),
        "{:?}",
        bench.said
    );
}

#[test]
fn a_commit_whose_destination_says_nothing_ends_as_any_lost_worker_with_the_ids_so_far() {
    let mut bench = preparing();
    bench.catch_up();
    bench.propose(1, commit());
    bench.tokens(1, 2..6);
    bench.wait(ms(3499));
    assert_eq!(bench.machine.live().unwrap().1, peer(2));
    bench.wait(ms(1));
    assert_eq!(bench.machine.story()[1].ended.clone().unwrap().1, Ending::Silent(Silence::BeforeFirstToken));
    assert_eq!((bench.question().done_tokens, bench.question().excluded), (6, vec![peer(2)]));
    bench.place_on(1);
    assert_eq!(bench.start().0, peer(1), "the source has not failed");
}

#[test]
fn a_source_that_may_go_on_after_all_gets_its_whole_patience() {
    let mut bench = preparing();
    bench.catch_up();
    bench.machine.limits.stop = ms(60_000);
    bench.propose(1, commit());
    bench.wait(ms(3000));
    bench.propose(1, PlanStep::Abort { destination: peer(2) });
    bench.wait(ms(3000));
    assert_eq!(bench.machine.live().unwrap().1, peer(1));
}

#[test]
fn a_destination_that_loads_a_model_for_long_is_waited_for_as_long_as_it_says_so() {
    let mut bench = preparing();
    bench.machine.limits.token_silence = ms(1_000_000);
    for second in 0..20 {
        bench.standby(StandbyNews::Alive);
        bench.wait(ms(1000));
        assert!(bench.machine.standby().is_some(), "second {second}");
    }
    bench.standby(StandbyNews::Progress { held_tokens: 1 });
    for _ in 0..5 {
        bench.standby(StandbyNews::Alive);
        bench.wait(ms(1000));
    }
    assert_eq!(dropped(&bench), Some(Dropped::Silent), "what counts from then on is that it holds more");
}

#[test]
fn a_destination_that_has_caught_up_may_keep_up_for_ever() {
    let mut bench = preparing();
    bench.machine.limits.token_silence = ms(1_000_000);
    bench.machine.limits.preparation = ms(8000);
    for index in 2..8 {
        bench.catch_up();
        bench.wait(ms(4000));
        bench.token(1, index);
    }
    assert!(bench.machine.standby().is_some());
}
