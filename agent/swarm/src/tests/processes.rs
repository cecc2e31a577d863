//! Departures of real processes: killed, frozen, resumed. The test binary runs itself once more as the other peer.

use core::time::Duration;
use std::process::{Child, Command, Stdio};

use idlewild_protocol::{CertificateChain, Message, PeerId, SwarmId};
use rustix::process::{Pid, Signal, kill_process};

use super::world::{Peer, World};
use crate::{Departure, Identity, Membership};

/// Holds what the other process needs to know; empty in the test itself.
const CHILD: &str = "IDLEWILD_SWARM_TEST_CHILD";

/// The other process ends by itself after this, should its test be gone.
const CHILD_LIFE: Duration = Duration::from_mins(1);

/// A peer in a process of its own.
struct Other {
    process: Child,
    id: PeerId,
}

impl Other {
    fn start(world: &World, knows: &Peer) -> Self {
        let identity = Identity::generate();
        let membership = world.membership_of(identity.peer_id());
        let papers = [
            to_hex(&identity.seed()),
            to_hex(&membership.swarm.0),
            to_hex(&membership.chain.to_bytes().unwrap()),
            knows.address(),
        ];
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::processes::the_other_process", "--nocapture"])
            .env(CHILD, papers.join(" "))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, id: identity.peer_id() }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have been killed already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Not a test of its own: what the other process runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_process() {
    let Ok(papers) = std::env::var(CHILD) else { return };
    let [seed, swarm, chain, address] = papers.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let mut config = World::new().config(Identity::from_seed(from_hex(seed).try_into().unwrap()), 1);
    config.membership = Membership {
        swarm: SwarmId(from_hex(swarm).try_into().unwrap()),
        chain: CertificateChain::from_bytes(&from_hex(chain)).unwrap(),
    };
    config.static_peers = vec![address.to_owned()];
    let mut peer = Peer::start(config).await;
    let drained = async { while peer.events.recv().await.is_some() {} };
    drop(tokio::time::timeout(CHILD_LIFE, drained).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_is_noticed_by_its_connection() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let other = Other::start(&world, &member);
    member.sees(other.id).await;
    member.has_bulk_to(other.id).await;
    other.signal(Signal::KILL);
    // How soon is a matter of the heartbeat, whose tests have a clock of their own.
    let why = member.loses(other.id).await;
    assert_eq!(why, Departure::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_process_is_noticed_by_its_silence_and_comes_back_when_it_wakes() {
    let world = World::new();
    let mut member = world.member(&[]).await;
    let other = Other::start(&world, &member);
    member.sees(other.id).await;
    member.has_bulk_to(other.id).await;
    other.signal(Signal::STOP);
    let why = member.loses(other.id).await;
    assert!(matches!(why, Departure::Silent(_)), "{why:?}");
    other.signal(Signal::CONT);
    member.sees(other.id).await;
}
