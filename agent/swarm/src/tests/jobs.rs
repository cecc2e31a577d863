//! Job streams: both directions, cancels, bursts; and probes.

use core::time::Duration;
use std::time::Instant;

use idlewild_protocol::{Epoch, FinishReason, JobEvent, JobInput, JobRequest, JobStart, TokenId};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::world::{Peer, SOON, World, job};
use crate::{JobLost, JobServer, OpenError, ProbeError, SwarmEvent};

async fn next_job(peer: &mut Peer) -> (JobServer, Box<JobStart>) {
    peer.event(|event| match event {
        SwarmEvent::Job { job, start } => Some((job, start)),
        _ => None,
    })
    .await
}

fn token(index: u32) -> JobEvent {
    JobEvent::Token { epoch: Epoch(1), index, id: TokenId(index), text: "x".repeat(index as usize % 7) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_there_and_its_tokens_come_back_in_order() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let mut client = origin.swarm.open_job(worker.id(), job(1)).await.unwrap();
    let (mut server, start) = next_job(&mut worker).await;
    assert_eq!((*start, server.peer()), (job(1), origin.id()));
    let finished = JobEvent::Finished { epoch: Epoch(1), reason: FinishReason::Stop, text: String::new() };
    let end = finished.clone();
    tokio::spawn(async move {
        for index in 0..500 {
            server.send(token(index)).await.unwrap();
        }
        server.send(end).await.unwrap();
        // Dropped at once: what was written must arrive all the same.
    });
    for index in 0..500 {
        assert_eq!(timeout(SOON, client.next()).await.unwrap(), Ok(token(index)));
    }
    assert_eq!(timeout(SOON, client.next()).await.unwrap(), Ok(finished));
    assert_eq!(timeout(SOON, client.next()).await.unwrap(), Err(JobLost::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepare_comes_as_one_and_takes_what_a_destination_is_told() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let prepare = JobStart { epoch: Epoch(0), ..job(1) };
    let mut client = origin.swarm.open_prepare(worker.id(), prepare.clone()).await.unwrap();
    let prepared = worker.event(|event| match event {
        SwarmEvent::Prepare { job, start } => Some((job, start)),
        _ => None,
    });
    let (mut server, start) = prepared.await;
    assert_eq!(*start, prepare);
    let forward = JobRequest::Forward { from_index: 0, ids: vec![TokenId(7); 65_536] };
    client.send(forward.clone()).await.unwrap();
    assert_eq!(timeout(SOON, server.next()).await.unwrap(), Ok(forward));
    let held = JobEvent::Held { epoch: Epoch(0), tokens: 65_536, pulled_tokens: 0, pulled_bytes: 0 };
    server.send(held.clone()).await.unwrap();
    assert_eq!(timeout(SOON, client.next()).await.unwrap(), Ok(held));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_either_end_closes_the_other() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let client = origin.swarm.open_job(worker.id(), job(1)).await.unwrap();
    let (mut server, _) = next_job(&mut worker).await;
    drop(client);
    assert_eq!(timeout(SOON, server.next()).await.unwrap(), Err(JobLost::Closed));

    let mut client = origin.swarm.open_job(worker.id(), job(2)).await.unwrap();
    let (server, _) = next_job(&mut worker).await;
    drop(server);
    assert_eq!(timeout(SOON, client.next()).await.unwrap(), Err(JobLost::Closed));

    let mut client = origin.swarm.open_job(worker.id(), job(3)).await.unwrap();
    let (mut server, _) = next_job(&mut worker).await;
    client.send(JobRequest::Cancel).await.unwrap();
    assert_eq!(timeout(SOON, server.next()).await.unwrap(), Ok(JobRequest::Cancel));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_jobs_at_once_are_all_served() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let mut clients = JoinSet::new();
    for n in 0..100_u8 {
        let (swarm, worker) = (origin.swarm.clone(), worker.id());
        clients.spawn(async move {
            let mut client = swarm.open_job(worker, job(n)).await.unwrap();
            let event = client.next().await.unwrap();
            assert_eq!(event, token(n.into()));
            n
        });
    }
    let mut servers = Vec::new();
    while servers.len() < 100 {
        let (mut server, start) = next_job(&mut worker).await;
        server.send(token(start.request.0[0].into())).await.unwrap();
        servers.push(server);
    }
    let served = timeout(SOON, clients.join_all()).await.unwrap();
    assert_eq!(served.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_udp_does_not_pass_tcp_carries_everything_and_too_many_jobs_do_not_break_it() {
    let world = World::new();
    let mut worker = world.member(&[]).await;
    let mut config = world.config(crate::Identity::generate(), 1);
    config.static_peers = vec![super::world::tcp_only(&worker).await];
    let mut origin = Peer::start(config).await;
    origin.sees(worker.id()).await;
    worker.sees(origin.id()).await;
    assert!(origin.swarm.peers()[0].address.contains("/tcp/"), "{:?}", origin.swarm.peers());

    let mut jobs = Vec::new();
    let refused = loop {
        match origin.swarm.open_job(worker.id(), job(1)).await {
            Ok(client) => jobs.push((client, next_job(&mut worker).await)),
            Err(error) => break error,
        }
        assert!(jobs.len() < 64, "yamux would break the connection");
    };
    assert_eq!(refused, OpenError::Busy);
    assert!(jobs.len() >= 16, "{}", jobs.len());
    jobs.clear();
    let begun = Instant::now();
    while origin.swarm.open_job(worker.id(), job(2)).await.is_err() {
        assert!(begun.elapsed() < SOON, "slots come back with their streams' ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(origin.is_connected_to(worker.id()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_job_fits_and_a_larger_one_says_so() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let with_prompt = |bytes| JobStart { input: JobInput::Text { prompt: "p".repeat(bytes) }, ..job(1) };
    let large = with_prompt(2 * 1024 * 1024 - 4096);
    let client = origin.swarm.open_job(worker.id(), large.clone()).await.unwrap();
    let (_server, start) = next_job(&mut worker).await;
    assert_eq!(*start, large);
    drop(client);
    let too_large = origin.swarm.open_job(worker.id(), with_prompt(2 * 1024 * 1024)).await;
    assert_eq!(too_large.err(), Some(OpenError::TooLarge));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_for_absent_peers_and_of_departed_ones_fail_cleanly() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let nobody = crate::Identity::generate().peer_id();
    assert_eq!(origin.swarm.open_job(nobody, job(1)).await.err(), Some(OpenError::NotConnected));

    let mut client = origin.swarm.open_job(worker.id(), job(1)).await.unwrap();
    let (_server, _) = next_job(&mut worker).await;
    worker.swarm.shut_down(idlewild_protocol::DepartureCause::Shutdown, 0).await;
    assert_eq!(timeout(SOON, client.next()).await.unwrap(), Err(JobLost::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_waited_for_in_a_select_loses_nothing() {
    let world = World::new();
    let (mut worker, origin) = world.pair().await;
    let mut client = origin.swarm.open_job(worker.id(), job(1)).await.unwrap();
    let (mut server, _) = next_job(&mut worker).await;
    tokio::spawn(async move {
        for index in 0..2_000 {
            server.send(token(index)).await.unwrap();
        }
        server.next().await.unwrap_err();
    });
    let mut expected = 0;
    while expected < 2_000 {
        // A deadline of nothing drops the future at every point where it can wait.
        match timeout(Duration::ZERO, client.next()).await {
            Ok(event) => {
                assert_eq!(event, Ok(token(expected)));
                expected += 1;
            }
            Err(_elapsed) => tokio::task::yield_now().await,
        }
    }
}

/// Bytes of the smaller probe without those that come first and do not count.
const LEAST_MEASURED: f64 = 192.0 * 1024.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_measures_both_directions_for_both_peers_and_has_a_budget() {
    let world = World::new();
    let (one, other) = world.pair().await;
    one.has_bulk_to(other.id()).await;
    other.has_bulk_to(one.id()).await;
    let begun = Instant::now();
    let probe = one.swarm.probe(other.id()).await.unwrap();
    // What is measured came within the time that the whole took.
    let least = (LEAST_MEASURED / begun.elapsed().as_secs_f64()) as u64;
    assert!(probe.up_bytes_per_s >= least && probe.down_bytes_per_s >= least, "{probe:?}, {least}");
    let link = one.swarm.peers().remove(0);
    assert_eq!(link.up_bytes_per_s, Some(probe.up_bytes_per_s));
    assert_eq!(link.down_bytes_per_s, Some(probe.down_bytes_per_s));
    super::world::eventually(|| other.swarm.peers()[0].down_bytes_per_s == Some(probe.up_bytes_per_s)).await;
    super::world::eventually(|| other.swarm.peers()[0].up_bytes_per_s == Some(probe.down_bytes_per_s)).await;

    let mut probes = 1;
    let spent = loop {
        match one.swarm.probe(other.id()).await {
            Ok(_) => probes += 1,
            Err(error) => break error,
        }
        assert!(probes < 200, "64 MiB a day are some dozens of probes");
    };
    assert_eq!(spent, ProbeError::BudgetSpent);
}
