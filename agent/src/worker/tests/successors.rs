//! Workers that get ready: a client waits for them as for any other.

use super::*;

#[tokio::test]
async fn a_worker_that_gets_ready_is_not_pushed_out_by_another() {
    let world = World::new();
    let source = Peer::start(&world, Nature { gives: Gives::Nothing, ..ABLE }, &[]).await;
    let destination = Peer::start(&world, Nature { slots: 1, ..ABLE }, &[&source]).await;
    let mut running = source.runs(job(1, 1, words(100), None));
    let prompt = prompt_of(&mut running).await;
    let said = tokens(&mut running, 0, 20).await;
    let start = job(1, 2, ids(&prompt, &said[..10]), Some(whole_from(&source)));
    let mut successor = source.has_run(&destination, start).await;
    prompt_of(&mut successor).await;
    destination.until("it counts as one that runs", |stats| (stats.running, stats.standbys) == (1, 0)).await;
    let mut other = destination.runs(job(2, 1, words(3), None));
    prompt_of(&mut other).await;
    assert_eq!(tokens(&mut successor, 10, 10).await, said[10..]);
    drop(successor);
    tokens(&mut other, 0, 1).await;
}

#[tokio::test]
async fn a_standby_that_takes_over_far_behind_is_not_pushed_out_by_another() {
    let world = World::new();
    let source = Peer::start(&world, Nature { gives: Gives::Nothing, ..ABLE }, &[]).await;
    let destination = Peer::start(&world, Nature { slots: 1, ..ABLE }, &[&source]).await;
    let mut running = source.runs(job(1, 1, words(100), None));
    let prompt = prompt_of(&mut running).await;
    let said = tokens(&mut running, 0, 10).await;
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &[]), Some(whole_from(&source)))).await;
    prompt_of(&mut standby).await;
    destination.until("it is an option", |stats| (stats.running, stats.standbys) == (0, 1)).await;
    say(&mut standby, JobRequest::TakeOver { epoch: Epoch(2), from_index: 0 }).await;
    destination.until("it is one no more", |stats| (stats.running, stats.standbys) == (1, 0)).await;
    let mut other = destination.runs(job(2, 1, words(3), None));
    prompt_of(&mut other).await;
    assert_eq!(tokens(&mut standby, 0, 10).await, said);
    drop(standby);
    tokens(&mut other, 0, 1).await;
}

#[tokio::test]
async fn a_standby_makes_room_and_says_so() {
    let world = World::new();
    let source = Peer::start(&world, ABLE, &[]).await;
    let destination = Peer::start(&world, Nature { slots: 1, ..ABLE }, &[&source]).await;
    let prompt: Vec<TokenId> = (400..420).map(TokenId).collect();
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &[]), None)).await;
    until_held(&mut standby, 20).await;
    let mut other = destination.runs(job(2, 1, words(3), None));
    assert_eq!(failure_of(&mut standby).await, JobFailure::Busy);
    tokens(&mut other, 0, 1).await;
}
