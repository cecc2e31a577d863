//! Whom a job waits for, and for how long.

use super::*;

/// A standby that has pulled the prompt, ten tokens behind a source that stands still after twenty. With those twenty.
async fn lagging(source: &Peer, destination: &Peer) -> (OriginEnd, OriginEnd, Vec<TokenId>) {
    // So short that it comes in the chunks that are asked for before anything is known of the link.
    let mut running = source.runs(job(1, 1, words(49), None));
    say(&mut running, JobRequest::StopAfter { index: 19 }).await;
    let prompt = prompt_of(&mut running).await;
    let said = tokens(&mut running, 0, 20).await;
    say(&mut running, JobRequest::Offer { to: Some(destination.id()) }).await;
    let mut standby = source.has_prepared(destination, job(1, 0, ids(&prompt, &[]), Some(whole_from(source)))).await;
    // The last one counts as held though nobody has it.
    assert_eq!(until_held(&mut standby, 49).await, 48);
    say(&mut standby, JobRequest::Forward { from_index: 0, ids: said[..10].to_vec() }).await;
    (running, standby, said)
}

#[tokio::test]
async fn a_standby_that_takes_over_pulls_the_last_tokens_from_a_worker_that_stands_still() {
    let world = World::new();
    let source = Peer::start(&world, ABLE, &[]).await;
    let destination = Peer::start(&world, Nature { rates: UNABLE_TO_PREFILL, ..ABLE }, &[&source]).await;
    let (_running, mut standby, said) = lagging(&source, &destination).await;
    say(&mut standby, JobRequest::TakeOver { epoch: Epoch(2), from_index: 10 }).await;
    assert_eq!(tokens(&mut standby, 10, 10).await, said[10..]);
}

#[tokio::test]
async fn a_standby_whose_worker_is_gone_makes_the_last_tokens_itself() {
    let world = World::new();
    let source = Peer::start(&world, ABLE, &[]).await;
    let destination = Peer::start(&world, ABLE, &[&source]).await;
    let (running, mut standby, said) = lagging(&source, &destination).await;
    drop(running);
    source.until("its context is gone", |stats| stats.kv_free_tokens == stats.kv_tokens).await;
    say(&mut standby, JobRequest::TakeOver { epoch: Epoch(2), from_index: 10 }).await;
    assert_eq!(tokens(&mut standby, 10, 10).await, said[10..]);
}

#[tokio::test]
async fn a_holder_that_does_not_answer_is_not_waited_for_when_patience_ends() {
    let world = World::new();
    let source = Peer::start(&world, Nature { gives: Gives::Nothing, ..ABLE }, &[]).await;
    let patience = Patience { last_feed: Duration::from_millis(1), ..ABLE.patience };
    let destination = Peer::start(&world, Nature { patience, ..ABLE }, &[&source]).await;
    let mut running = source.runs(job(1, 1, words(40), None));
    let prompt = prompt_of(&mut running).await;
    let said = tokens(&mut running, 0, 10).await;
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &[]), Some(whole_from(&source)))).await;
    prompt_of(&mut standby).await;
    say(&mut standby, JobRequest::TakeOver { epoch: Epoch(2), from_index: 0 }).await;
    assert_eq!(tokens(&mut standby, 0, 10).await, said);
}

#[tokio::test]
async fn a_worker_that_stands_still_and_hears_nothing_gives_its_place_back() {
    let world = World::new();
    let patience = Patience { parked: Duration::from_millis(50), ..ABLE.patience };
    let peer = Peer::start(&world, Nature { patience, ..ABLE }, &[]).await;
    let mut running = peer.runs(job(1, 1, words(5), None));
    say(&mut running, JobRequest::StopAfter { index: 4 }).await;
    tokens(&mut running, 0, 5).await;
    let JobFailure::Engine(why) = failure_of(&mut running).await else { panic!("another failure") };
    assert!(why.contains("told to stop") && why.contains("said nothing"), "{why}");
    peer.until("its cells are free", |stats| stats.running == 0 && stats.kv_free_tokens == stats.kv_tokens).await;
}

#[tokio::test]
async fn a_worker_that_has_not_come_to_its_stop_is_not_given_up() {
    let world = World::new();
    let patience = Patience { parked: Duration::from_millis(1), ..ABLE.patience };
    let peer = Peer::start(&world, Nature { patience, ..ABLE }, &[]).await;
    let mut running = peer.runs(job(1, 1, words(5), None));
    say(&mut running, JobRequest::StopAfter { index: 200 }).await;
    // Each takes ten times as long as a worker may stand still.
    tokens(&mut running, 0, 20).await;
}
