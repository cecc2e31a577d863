//! Arrivals and departures.

use core::time::Duration;
use std::time::Instant;

use idlewild_protocol::{ControlMessage, DepartureCause, DigestVersion, Refusal};

use super::world::{Peer, SOON, World, eventually};
use crate::{Departure, Identity, RefusedBy, SendError, SwarmEvent};

fn note(of: &Peer, sequence: u64) -> ControlMessage {
    ControlMessage::Unchanged(DigestVersion { peer: of.id(), boot: of.swarm.boot(), sequence })
}

async fn next_control(peer: &mut Peer) -> ControlMessage {
    peer.event(|event| match event {
        SwarmEvent::Control { message, .. } => Some(message),
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_arrive_in_order_in_both_directions() {
    let world = World::new();
    let (mut one, mut other) = world.pair().await;
    for sequence in 0..100 {
        one.swarm.send(other.id(), &note(&one, sequence)).unwrap();
        other.swarm.send(one.id(), &note(&other, sequence)).unwrap();
    }
    for sequence in 0..100 {
        assert_eq!(next_control(&mut other).await, note(&one, sequence));
        assert_eq!(next_control(&mut one).await, note(&other, sequence));
    }
    assert!(one.swarm.traffic().control_sent_bytes > 3_000);
    assert!(one.swarm.traffic().control_received_bytes > 3_000);
    let nobody = Identity::generate().peer_id();
    assert_eq!(one.swarm.send(nobody, &note(&one, 1)), Err(SendError::NotConnected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_shuts_down_says_goodbye_and_is_gone_at_once() {
    let world = World::new();
    let (mut one, other) = world.pair().await;
    other.swarm.shut_down(DepartureCause::Battery, 0).await;
    assert_eq!(one.loses(other.id()).await, Departure::Goodbye(DepartureCause::Battery));
    assert!(!one.is_connected_to(other.id()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_who_returns_leaves_the_peer_connected() {
    let world = World::new();
    let (mut one, other) = world.pair().await;
    let goodbye = ControlMessage::Goodbye { cause: DepartureCause::OwnerReturned, notice_ms: 100 };
    other.swarm.send(one.id(), &goodbye).unwrap();
    assert_eq!(next_control(&mut one).await, goodbye);
    other.swarm.send(one.id(), &note(&other, 7)).unwrap();
    assert_eq!(next_control(&mut one).await, note(&other, 7));
    assert!(one.is_connected_to(other.id()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_peer_comes_back_under_its_new_boot() {
    let world = World::new();
    let identity = Identity::generate();
    let mut one = world.member(&[]).await;
    let mut config = world.config(identity.clone(), 5);
    config.static_peers = vec![one.address()];
    let first = Peer::start(config).await;
    assert_eq!(one.sees(first.id()).await.0, 5);
    first.swarm.shut_down(DepartureCause::Shutdown, 0).await;
    one.loses(first.id()).await;

    let mut config = world.config(identity, 6);
    config.static_peers = vec![one.address()];
    let mut second = Peer::start(config).await;
    assert_eq!(one.sees(second.id()).await.0, 6);
    second.sees(one.id()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_is_refused_while_the_first_is_alive() {
    let world = World::new();
    let identity = Identity::generate();
    let mut one = world.member(&[]).await;
    let mut config = world.config(identity.clone(), 5);
    config.static_peers = vec![one.address()];
    let first = Peer::start(config).await;
    one.sees(first.id()).await;

    for boot in [4, 6] {
        let mut config = world.config(identity.clone(), boot);
        config.static_peers = vec![one.address()];
        let mut clone = Peer::start(config).await;
        assert_eq!(clone.refuses().await, (one.id(), Refusal::Clone, RefusedBy::Them), "boot {boot}");
        assert_eq!(one.refuses().await, (clone.id(), Refusal::Clone, RefusedBy::Us), "boot {boot}");
        assert!(one.is_connected_to(first.id()) && !clone.is_connected_to(one.id()));
        clone.swarm.shut_down(DepartureCause::Shutdown, 0).await;
        // The wait of a refused identity is the gate's; another world's time is not to be spent on it.
        one = {
            let mut next = world.member(&[&first]).await;
            next.sees(first.id()).await;
            next
        };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_find_each_other_again_by_the_address_book_alone() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate();
    let mut one = world.member(&[]).await;
    let mut config = world.config(identity.clone(), 1);
    config.static_peers = vec![one.address()];
    config.address_book = Some(folder.path().join("peers.json"));
    let mut other = Peer::start(config).await;
    other.sees(one.id()).await;
    one.sees(other.id()).await;
    other.swarm.shut_down(DepartureCause::Shutdown, 0).await;
    eventually(|| folder.path().join("peers.json").exists()).await;

    let mut config = world.config(identity, 2);
    config.address_book = Some(folder.path().join("peers.json"));
    let mut again = Peer::start(config).await;
    assert_eq!(again.sees(one.id()).await, one.swarm.boot());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_takes_no_events_is_not_thought_dead() {
    let world = World::new();
    let (one, mut other) = world.pair().await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) || one.swarm.traffic().control_dropped == 0 {
        assert!(begun.elapsed() < SOON, "the test should overflow the queue");
        // More than the queue holds; `one` takes none of them.
        for sequence in 0..60 {
            let _ = other.swarm.send(one.id(), &note(&other, sequence));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(other.is_connected_to(one.id()) && one.is_connected_to(other.id()));
    let departed = other.event_within(Duration::ZERO, |event| match event {
        SwarmEvent::Departed { .. } => Some(()),
        _ => None,
    });
    assert!(departed.await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_peers_that_know_one_address_all_meet_it() {
    let world = World::new();
    let mut hub = world.member(&[]).await;
    let mut others = Vec::new();
    for _ in 0..9 {
        others.push(world.member(&[&hub]).await);
    }
    for other in &mut others {
        other.sees(hub.id()).await;
    }
    eventually(|| hub.swarm.peers().len() == 9).await;
    let mut seen = 0;
    while hub
        .event_within(Duration::from_millis(100), |e| matches!(e, SwarmEvent::Connected { .. }).then_some(()))
        .await
        .is_some()
    {
        seen += 1;
    }
    assert_eq!(seen, 9, "each arrival is told once");
    assert!(SOON > Duration::ZERO);
}
