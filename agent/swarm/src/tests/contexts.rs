//! Contexts from one peer to another: whole chunks in order, refusals, limits, and connections that are cut.

use core::time::Duration;
use std::time::Instant;

use idlewild_protocol::{ContextOpen, ContextRefusal, LayoutFingerprint, ModelId, PeerId, RequestId};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::relay::Relay;
use super::world::{Peer, SOON, World, eventually};
use crate::{ContextClient, ContextLost, ContextRange, ContextServer, OpenError, PULLS_MAX, Pulled, SwarmEvent};

/// Positions of a chunk.
const STEP: u32 = 64;

fn context(n: u8) -> ContextOpen {
    ContextOpen {
        origin: PeerId([1; 32]),
        request: RequestId([n; 16]),
        model: ModelId([6; 32]),
        layout: LayoutFingerprint([7; 32]),
    }
}

/// What the KV cache of these positions would be: other bytes for each range.
fn bytes_of(range: ContextRange, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&range.from.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

async fn next_context(peer: &mut Peer) -> (ContextServer, ContextOpen) {
    peer.event(|event| match event {
        SwarmEvent::Context { context, open } => Some((context, open)),
        _ => None,
    })
    .await
}

/// Serves all contexts that are asked for, with chunks of this length.
fn holding(peer: Peer, length: usize) -> JoinHandle<()> {
    tokio::spawn(async move {
        // Both are needed: a swarm whose handle is dropped ends.
        let Peer { swarm: _swarm, mut events } = peer;
        while let Some(event) = events.recv().await {
            if let SwarmEvent::Context { mut context, .. } = event {
                tokio::spawn(async move {
                    while let Ok(range) = context.next().await {
                        if context.send(bytes_of(range, length)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
    })
}

async fn next(client: &mut ContextClient) -> Result<Pulled, ContextLost> {
    timeout(SOON, client.next()).await.expect("it should be answered by now")
}

/// Pulls `chunks` from `from` on and gives how many of them came before the stream was lost.
async fn pull(client: &mut ContextClient, from: u32, chunks: u32, length: usize) -> u32 {
    let (mut asked, mut came) = (0, 0);
    while came < chunks {
        while asked < chunks && client.under_way() < PULLS_MAX {
            let at = (from + asked) * STEP;
            if client.pull(at, at + STEP).is_err() {
                break;
            }
            asked += 1;
        }
        match next(client).await {
            Ok(Pulled::Chunk { header, bytes }) => {
                let at = (from + came) * STEP;
                assert_eq!((header.from, header.to), (at, at + STEP));
                assert_eq!(bytes, bytes_of(ContextRange { from: at, to: at + STEP }, length));
                came += 1;
            }
            Ok(Pulled::Refused { refusal, .. }) => panic!("{refusal}"),
            Err(_lost) => return came,
        }
    }
    came
}

/// Opens as soon as there is a bulk connection.
async fn open(peer: &Peer, holder: PeerId, context: ContextOpen) -> ContextClient {
    peer.has_bulk_to(holder).await;
    peer.swarm.open_context(holder, context).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_come_whole_in_the_order_of_their_pulls_and_teach_the_rate_of_the_link() {
    let world = World::new();
    let (holder, destination) = world.pair().await;
    let (id, holders_swarm) = (holder.id(), holder.swarm.clone());
    let holding = holding(holder, 700_001);
    let mut client = open(&destination, id, context(1)).await;
    let begun = Instant::now();
    assert_eq!(pull(&mut client, 0, 12, 700_001).await, 12);
    assert_eq!(client.received_bytes(), 12 * 700_001);
    // A measurement is of a mebibyte at least, and within the time that the whole took.
    let least = (1_048_576.0 / begun.elapsed().as_secs_f64()) as u64;
    let is_measured = |rate: Option<u64>| rate.is_some_and(|rate| rate >= least);
    assert!(is_measured(destination.swarm.peers()[0].down_bytes_per_s), "{:?}", destination.swarm.peers());
    eventually(|| is_measured(holders_swarm.peers()[0].up_bytes_per_s)).await;
    holding.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_hears_which_context_is_wanted_and_may_refuse_it() {
    let world = World::new();
    let (mut holder, destination) = world.pair().await;
    let mut client = open(&destination, holder.id(), context(1)).await;
    let (mut server, wanted) = next_context(&mut holder).await;
    assert_eq!((wanted, server.context(), server.peer()), (context(1), context(1), destination.id()));
    client.pull(0, STEP).unwrap();
    client.pull(STEP, 2 * STEP).unwrap();
    for n in 0..2 {
        let range = timeout(SOON, server.next()).await.unwrap().unwrap();
        assert_eq!(range, ContextRange { from: n * STEP, to: (n + 1) * STEP });
        server.refuse(ContextRefusal::NotOffered).await.unwrap();
        assert_eq!(next(&mut client).await, Ok(Pulled::Refused { range, refusal: ContextRefusal::NotOffered }));
    }
    drop(server);
    assert_eq!(next(&mut client).await, Err(ContextLost::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_client_reaches_the_holder() {
    let world = World::new();
    let (mut holder, destination) = world.pair().await;
    let client = open(&destination, holder.id(), context(1)).await;
    let (mut server, _) = next_context(&mut holder).await;
    drop(client);
    assert_eq!(timeout(SOON, server.next()).await.unwrap(), Err(ContextLost::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_contexts_is_turned_away_and_their_places_come_back() {
    let world = World::new();
    let (mut holder, destination) = world.pair().await;
    let mut served = Vec::new();
    for n in 0..4 {
        let client = open(&destination, holder.id(), context(n)).await;
        served.push((client, next_context(&mut holder).await));
    }
    for n in 4..12 {
        let mut client = open(&destination, holder.id(), context(n)).await;
        assert_eq!(next(&mut client).await, Err(ContextLost::Refused(ContextRefusal::Busy)));
    }
    served.clear();
    let holder_id = holder.id();
    let again = async {
        loop {
            let mut client = open(&destination, holder_id, context(20)).await;
            // A place comes back when its stream's end is seen.
            tokio::select! {
                (_server, wanted) = next_context(&mut holder) => return (client, wanted),
                lost = client.next() => assert_eq!(lost, Err(ContextLost::Refused(ContextRefusal::Busy))),
            }
        }
    };
    let (client, wanted) = timeout(SOON, again).await.expect("the places should be free by now");
    assert_eq!(wanted, client.context());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_that_is_waited_for_in_a_select_is_not_lost() {
    let world = World::new();
    let (holder, destination) = world.pair().await;
    let id = holder.id();
    let holding = holding(holder, 300_000);
    let mut client = open(&destination, id, context(1)).await;
    for n in 0..20 {
        client.pull(n * STEP, (n + 1) * STEP).unwrap();
        let chunk = loop {
            // A deadline of nothing drops the future at every point where it can wait.
            match timeout(Duration::ZERO, client.next()).await {
                Ok(pulled) => break pulled.unwrap(),
                Err(_elapsed) => tokio::task::yield_now().await,
            }
        };
        let Pulled::Chunk { header, .. } = chunk else { panic!("{chunk:?}") };
        assert_eq!(header.from, n * STEP);
    }
    holding.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_without_a_bulk_connection_is_told_from_one_that_is_not_there() {
    let world = World::new();
    let mut holder = world.member(&[]).await;
    let relay = Relay::to(&holder, false).await;
    let mut config = world.config(crate::Identity::generate(), 1);
    config.static_peers = vec![relay.address()];
    let mut destination = Peer::start(config).await;
    destination.sees(holder.id()).await;
    holder.sees(destination.id()).await;
    let refused = destination.swarm.open_context(holder.id(), context(1)).await;
    assert_eq!(refused.err(), Some(OpenError::NoBulk));
    let nobody = crate::Identity::generate().peer_id();
    let refused = destination.swarm.open_context(nobody, context(1)).await;
    assert_eq!(refused.err(), Some(OpenError::NotConnected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_in_mid_chunk_is_opened_again_and_the_rest_comes() {
    const LENGTH: usize = 4_000_000;
    let world = World::new();
    let mut holder = world.member(&[]).await;
    let relay = Relay::to(&holder, true).await;
    let mut config = world.config(crate::Identity::generate(), 1);
    config.static_peers = vec![relay.address()];
    let mut destination = Peer::start(config).await;
    let id = holder.id();
    destination.sees(id).await;
    holder.sees(destination.id()).await;
    let holding = holding(holder, LENGTH);

    let mut client = open(&destination, id, context(1)).await;
    let mut came = pull(&mut client, 0, 2, LENGTH).await;
    assert_eq!(came, 2);
    client.pull(came * STEP, (came + 1) * STEP).unwrap();
    let whole = 2 * LENGTH as u64;
    while client.received_bytes() <= whole {
        tokio::task::yield_now().await;
    }
    relay.cut();
    let cut = next(&mut client).await;
    // On a machine that is slow at the wrong moment the chunk is whole before the connection is cut.
    came += u32::from(cut.is_ok());
    assert_eq!(next(&mut client).await, Err(ContextLost::Closed));
    let mut client = timeout(SOON, async {
        loop {
            // The old connection counts until its end was seen.
            if let Ok(mut client) = destination.swarm.open_context(id, context(1)).await
                && pull(&mut client, came, 1, LENGTH).await == 1
            {
                return client;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the connection should be there again");
    assert_eq!(pull(&mut client, came + 1, 6, LENGTH).await, 6);
    assert!(destination.is_connected_to(id), "cut bulk is no departure");
    holding.abort();
}
