//! Origins that ask for more than anybody needs.

use super::*;

#[tokio::test]
async fn an_origin_that_asks_for_too_many_jobs_is_turned_away_and_others_are_not() {
    let world = World::new();
    // Minutes for all that is asked for, in steps of a second: an engine says nothing in the middle of one.
    let rates = FakeRates { prefill_tps: 16.0, ..STEADY };
    let peer = Peer::start(&world, Nature { rates, ..ABLE }, &[]).await;
    let asked_by = |origin: u8, number: u8| {
        let (ours, theirs) = local_line(PeerId([origin; 32]));
        peer.worker.take(theirs, job(number, 1, words(100), None), Part::Worker);
        ours
    };
    let mut flood: Vec<OriginEnd> = (0..60).map(|number| asked_by(98, number)).collect();
    let mut last = flood.pop().unwrap();
    assert_eq!(failure_of(&mut last).await, JobFailure::Busy);
    assert!(peer.worker.jobs_running() < 20, "{} jobs", peer.worker.jobs_running());
    let mut other = asked_by(99, 61);
    let taken =
        |event: &JobEvent| matches!(event, JobEvent::Prefilled { .. } | JobEvent::Accepted { .. }).then_some(());
    hear("a sign that it is taken", &mut other, taken).await;
    drop(flood);
    eventually("its places are free again", || peer.worker.jobs_running() <= 1).await;
}
