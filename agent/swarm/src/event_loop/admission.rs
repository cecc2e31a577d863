//! Who may come in now: one process of each identity, and no more peers than there is room for.

use std::collections::btree_map::Entry;

use idlewild_protocol::Refusal;
use libp2p::swarm::ConnectionId;
use tokio::sync::oneshot;

use super::connections::Phase;
use super::members::Neighbour;
use super::{Admission, EventLoop};
use crate::behaviour::MAX_PEERS;
use crate::control::Order;
use crate::hello::Member;

impl EventLoop {
    /// Answers a connection whose peer has shown that it is a member.
    ///
    /// A second connection of the same process is welcome. Another process with the same identity is a restarted one,
    /// if the old one is dead, and a clone if it answers a ping within its liveness timeout.
    pub(super) fn admit(&mut self, id: ConnectionId, member: Member) -> Admission {
        let Some(connection) = self.connections.get_mut(&id).filter(|c| c.phase == Phase::Hello) else {
            return Admission::Refused(Refusal::Busy);
        };
        let (peer, libp2p) = (connection.peer, connection.libp2p);
        let room = self.members.len() < MAX_PEERS as usize;
        match self.members.entry(peer) {
            Entry::Occupied(known) if known.get().has_ended() => return Admission::Later,
            Entry::Occupied(known) if known.get().boot() != member.boot => return contest(known.get()),
            Entry::Occupied(mut known) => known.get_mut().link(id),
            Entry::Vacant(_) if !room => return Admission::Refused(Refusal::Busy),
            Entry::Vacant(place) => {
                place.insert(Neighbour::new(peer, member, connection.remote.to_string(), id));
            }
        }
        connection.phase = Phase::Admitted;
        let (done, ready) = oneshot::channel();
        self.swarm.behaviour_mut().streams.admit(libp2p, id, done);
        Admission::Granted(ready)
    }
}

fn contest(known: &Neighbour) -> Admission {
    let (alive, answer) = oneshot::channel();
    match known.order(Order::Prove(alive)) {
        Ok(()) => Admission::Contested(answer),
        // It was let in a moment ago and has no conversation yet: it is as alive as can be, or soon gone.
        Err(_no_conversation) => Admission::Later,
    }
}
