//! Six hours without a request, on a virtual clock: the first request afterwards is placed as one at the start was.
//!
//! The real programs cannot be given another clock, so this runs what they are driven by: three peers' views, elections
//! and coordinators, with a digest a second from each and every message delivered.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_coordinator::coordinator::Coordinator;
use idlewild_coordinator::election::{Election, Input, Output};
use idlewild_coordinator::view::View;
use idlewild_protocol::{
    BootId, Digest, ElectionMessage, ModelId, ModelLoad, MoveTimes, PeerId, PeerState, PlaceOutcome, PlaceReply,
    PlaceRequest, QuantisedSurvival, RequestId,
};

const MODEL: ModelId = ModelId([9; 32]);
const SECOND: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_hours(6);

struct Peer {
    view: View,
    election: Election,
    coordinator: Coordinator,
    changes_of_leader: usize,
}

/// Three peers and the time.
struct World {
    now: Duration,
    peers: BTreeMap<PeerId, Peer>,
}

impl World {
    fn new() -> Self {
        let ids = [1, 2, 3].map(|n| PeerId([n; 32]));
        let peers = ids.map(|id| {
            let mut view = View::new(id);
            ids.iter()
                .filter(|other| **other != id)
                .for_each(|other| view.connected(Duration::ZERO, *other, BootId(1)));
            let election = Election::new(id, idlewild_protocol::Term(0), None, u64::from(id.0[0]));
            (id, Peer { view, election, coordinator: Coordinator::default(), changes_of_leader: 0 })
        });
        Self { now: Duration::ZERO, peers: peers.into_iter().collect() }
    }

    /// One second: everybody's digest to everybody, then the elections' timers in their order.
    fn pass_a_second(&mut self) {
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        let sequence = self.now.as_secs() + 1;
        for (at, id) in ids.iter().enumerate() {
            let digest = digest(*id, sequence, self.now, 10.0 * (at + 1) as f32);
            for (to, peer) in &mut self.peers {
                if to == id {
                    peer.view.state_own(self.now, digest.clone(), None);
                } else {
                    peer.view.apply(self.now, digest.clone());
                }
            }
        }
        for peer in self.peers.values_mut() {
            peer.view.expire(self.now);
            let candidates = peer.view.candidates(self.now);
            peer.election.handle(self.now, Input::Live { peers: candidates });
        }
        let end = self.now + SECOND;
        self.deliver();
        while let Some(due) = self.next_timer().filter(|due| *due < end) {
            self.now = self.now.max(due);
            for peer in self.peers.values_mut() {
                peer.election.handle(self.now, Input::Tick);
            }
            self.deliver();
        }
        self.now = end;
    }

    fn next_timer(&self) -> Option<Duration> {
        self.peers.values().filter_map(|peer| peer.election.poll_timeout()).min()
    }

    /// Carries out what the elections want until they want nothing more.
    fn deliver(&mut self) {
        loop {
            let mut messages: Vec<(PeerId, PeerId, ElectionMessage)> = Vec::new();
            for (from, peer) in &mut self.peers {
                while let Some(output) = peer.election.poll_output() {
                    match output {
                        Output::Send { to, message } => messages.push((*from, to, message)),
                        Output::Leader { .. } => peer.changes_of_leader += 1,
                        Output::Persist { .. } => {}
                    }
                }
            }
            if messages.is_empty() {
                return;
            }
            for (from, to, message) in messages {
                if let Some(peer) = self.peers.get_mut(&to) {
                    peer.election.handle(self.now, Input::Peer { from, message });
                }
            }
        }
    }

    /// The one leader in whom all believe.
    fn leader(&self) -> Result<PeerId> {
        let mut leaders = self.peers.values().map(|peer| peer.election.leader());
        let first = leaders.next().flatten().context("a leader")?;
        ensure!(leaders.all(|leader| leader == Some(first)), "they disagree");
        Ok(first)
    }

    fn place(&mut self, number: u8) -> Result<PlaceReply> {
        let (now, leader) = (self.now, self.leader()?);
        let peer = self.peers.get_mut(&leader).context("the leader")?;
        let request = PlaceRequest {
            request: RequestId([number; 16]),
            attempt: 1,
            model: MODEL,
            prompt_tokens: 100,
            expected_output_tokens: 50,
            done_tokens: 0,
            excluded: Vec::new(),
        };
        Ok(peer.coordinator.place(now, &peer.view, peer.election.term(), PeerId([1; 32]), &request))
    }
}

/// What a peer says of itself: in its session since the start, and 20 hours expected to come.
fn digest(peer: PeerId, sequence: u64, now: Duration, decode_tps: f32) -> Digest {
    let load = ModelLoad {
        model: MODEL,
        loaded: true,
        decode_tps,
        prefill_tps: 100.0,
        decode_doubles_at: 0,
        prefill_doubles_at: 0,
        kv_bytes_per_token: 1000,
        context_tokens: 4096,
        kv_free_tokens: 8192,
        queue_wait_ms: 0,
        running: 0,
        slots: 4,
    };
    Digest {
        peer,
        boot: BootId(1),
        sequence,
        state: PeerState::Serving,
        age_s: now.as_secs() as u32,
        survival: QuantisedSurvival::of(|t_s| (-t_s / 72_000.0).exp()),
        models: vec![load],
        up_bytes_per_s: 0,
        down_bytes_per_s: 0,
        move_times: MoveTimes::default(),
        pairs: Vec::new(),
        coordinator: None,
    }
}

#[test]
fn the_first_request_after_six_idle_hours_is_placed_like_one_at_the_start() -> Result<()> {
    let mut world = World::new();
    while world.now < 10 * SECOND {
        world.pass_a_second();
    }
    let (leader, before) = (world.leader()?, world.place(1)?);
    let changes: usize = world.peers.values().map(|peer| peer.changes_of_leader).sum();
    while world.now < IDLE {
        world.pass_a_second();
    }
    let after = world.place(2)?;
    ensure!(world.leader()? == leader, "the leader is still the same");
    let changed = world.peers.values().map(|peer| peer.changes_of_leader).sum::<usize>() - changes;
    ensure!(changed == 0, "leadership flapped {changed} times while nothing happened");
    let fastest = PeerId([3; 32]);
    ensure!(matches!(after.outcome, PlaceOutcome::Run { worker, .. } if worker == fastest), "{after:?}");
    ensure!(before.outcome == after.outcome, "{before:?} became {after:?}");
    for (one, other) in before.terms.iter().zip(&after.terms) {
        let same = one.peer == other.peer && (one.time_s() - other.time_s()).abs() < 1e-6;
        ensure!(same && (one.loss_s - other.loss_s).abs() < 0.05, "{one:?} became {other:?}");
    }
    for peer in world.peers.values() {
        ensure!(peer.view.peers().count() == 3, "a view of three");
    }
    Ok(())
}
