//! Members that are here: their connections, their control conversation, and how they go.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use idlewild_protocol::{BootId, DepartureCause, PeerId};
use libp2p::Stream;
use libp2p::swarm::ConnectionId;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::connections::{Connection, Phase};
use super::{EventLoop, Report};
use crate::OpenError;
use crate::address::Carrier;
use crate::contexts;
use crate::control::{Conversation, Order, Presence};
use crate::dialing::Have;
use crate::event::Departure;
use crate::hello::Member;
use crate::peer::PeerState;
use crate::streams::Kind;

/// How long the control stream waits for QUIC while TCP is there already.
const QUIC_GRACE: Duration = Duration::from_millis(1_500);

/// How long a member may be here without a control stream.
const SILENT_LIMIT: Duration = Duration::from_secs(8);

/// How long two connections over the same carrier are kept.
const SPARE_LIMIT: Duration = Duration::from_secs(10);

/// Starts of one peer's jobs that are held at once: each may take 2 MiB. The others wait in their streams' windows.
const ARRIVING_JOBS: usize = 16;

/// Orders that may wait for a conversation.
const ORDER_QUEUE: usize = 16;

/// How far a member's conversation is.
#[derive(Debug)]
enum Talk {
    /// There is none yet; this is the queue that it will write.
    Awaited(mpsc::Receiver<Vec<u8>>),
    /// We are opening its stream.
    Opening(mpsc::Receiver<Vec<u8>>),
    /// It lasts.
    Running(mpsc::Sender<Order>),
    /// It is over; the agent is being told.
    Over,
}

/// A member that was let in.
#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(super) state: Arc<PeerState>,
    pub(super) presence: Presence,
    /// One probe at a time.
    pub(super) probes: Arc<Semaphore>,
    /// Contexts that it may pull at once.
    pub(super) contexts: Arc<Semaphore>,
    /// Jobs whose start is being read, or waits for the agent: [`ARRIVING_JOBS`].
    pub(super) arriving: Arc<Semaphore>,
    links: Vec<ConnectionId>,
    talk: Talk,
    /// The connection of its conversation.
    talks_on: Option<ConnectionId>,
    /// The conversation's next stream is being opened, on a better connection.
    is_moving: bool,
    /// Which version of our neighbours it was told last.
    pub(super) told: u64,
}

impl Neighbour {
    /// Whether its conversation lasts.
    pub(super) fn is_heard(&self) -> bool {
        matches!(self.talk, Talk::Running(_))
    }

    pub(super) fn new(peer: PeerId, member: Member, address: String, link: ConnectionId) -> Self {
        let (state, queue) = PeerState::new(peer, member.role, member.boot, address);
        Self {
            state: Arc::new(state),
            presence: Presence::default(),
            probes: Arc::new(Semaphore::new(1)),
            contexts: Arc::new(Semaphore::new(contexts::MAX_PER_PEER)),
            arriving: Arc::new(Semaphore::new(ARRIVING_JOBS)),
            links: vec![link],
            talk: Talk::Awaited(queue),
            talks_on: None,
            is_moving: false,
            told: 0,
        }
    }

    pub(super) fn boot(&self) -> BootId {
        self.state.boot
    }

    pub(super) fn link(&mut self, connection: ConnectionId) {
        self.links.push(connection);
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.talk, Talk::Over)
    }

    /// Which connections it has.
    pub(super) fn have(&self, connections: &BTreeMap<ConnectionId, Connection>) -> Have {
        let over = |carrier| self.links.iter().filter_map(|id| connections.get(id)).any(|c| c.carrier == carrier);
        Have { quic: over(Carrier::Quic), tcp: over(Carrier::Tcp), circuit: over(Carrier::Circuit) }
    }

    /// Tells the conversation something. A full queue means that the same was said many times.
    pub(super) fn order(&self, order: Order) -> Result<(), Order> {
        match &self.talk {
            Talk::Running(orders) => orders.try_send(order).map_err(mpsc::error::TrySendError::into_inner),
            Talk::Awaited(_) | Talk::Opening(_) | Talk::Over => Err(order),
        }
    }
}

impl EventLoop {
    /// The connection of a peer to open streams on: the oldest one over the carrier that both sides can use.
    pub(super) fn ready_link(&self, peer: PeerId, carrier: Carrier) -> Option<(libp2p::PeerId, ConnectionId)> {
        let member = self.members.get(&peer)?;
        let ready = |id: &&ConnectionId| {
            self.connections.get(id).is_some_and(|c| c.carrier == carrier && c.phase == Phase::Ready)
        };
        let id = *member.links.iter().find(ready)?;
        Some((self.connections.get(&id)?.libp2p, id))
    }

    /// As the peer with the smaller id: opens the control streams that are due.
    pub(super) fn open_controls(&mut self, now: Instant) {
        let me = self.shared.me;
        let waiting = |(peer, member): (&PeerId, &Neighbour)| {
            (me < *peer && matches!(member.talk, Talk::Awaited(_))).then_some((*peer, member.state.since))
        };
        let waiting: Vec<_> = self.members.iter().filter_map(waiting).collect();
        for (peer, since) in waiting {
            let late = now >= since + QUIC_GRACE;
            let other = || self.ready_link(peer, Carrier::Tcp).or_else(|| self.ready_link(peer, Carrier::Circuit));
            let other = late.then(other).flatten();
            if let Some((libp2p, id)) = self.ready_link(peer, Carrier::Quic).or(other) {
                self.open_control(peer, libp2p, id);
            }
        }
    }

    /// As the peer with the smaller id: moves conversations from circuits to direct connections that came about.
    pub(super) fn move_conversations(&mut self, now: Instant) {
        let me = self.shared.me;
        let relayed = |(peer, member): (&PeerId, &Neighbour)| {
            let is_to_move = me < *peer && member.is_heard() && !member.is_moving && self.talks_on_circuit(member);
            is_to_move.then_some(*peer)
        };
        let relayed: Vec<_> = self.members.iter().filter_map(relayed).collect();
        for peer in relayed {
            let settled = |id: ConnectionId| self.connections.get(&id).is_some_and(|c| now >= c.since + QUIC_GRACE);
            let tcp = self.ready_link(peer, Carrier::Tcp).filter(|(_, id)| settled(*id));
            if let Some((libp2p, id)) = self.ready_link(peer, Carrier::Quic).or(tcp) {
                self.open_control(peer, libp2p, id);
            }
        }
    }

    pub(super) fn talks_on_circuit(&self, member: &Neighbour) -> bool {
        let on = member.talks_on.and_then(|id| self.connections.get(&id));
        on.is_some_and(|connection| connection.carrier == Carrier::Circuit)
    }

    fn open_control(&mut self, peer: PeerId, libp2p: libp2p::PeerId, id: ConnectionId) {
        let Some(member) = self.members.get_mut(&peer) else { return };
        member.talk = match core::mem::replace(&mut member.talk, Talk::Over) {
            Talk::Awaited(queue) => Talk::Opening(queue),
            Talk::Running(orders) => {
                member.is_moving = true;
                Talk::Running(orders)
            }
            other @ (Talk::Opening(_) | Talk::Over) => other,
        };
        let (opener, opened) = oneshot::channel();
        self.swarm.behaviour_mut().streams.open(libp2p, id, Kind::Control, opener);
        let reporter = self.reporter.clone();
        tokio::spawn(async move {
            let result = opened.await.unwrap_or(Err(OpenError::NotConnected));
            drop(reporter.send(Report::Control { peer, connection: id, result }).await);
        });
    }

    pub(super) fn handle_control_opened(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        result: Result<Stream, OpenError>,
    ) {
        let moved = self.members.get_mut(&peer).is_some_and(|member| core::mem::take(&mut member.is_moving));
        match result {
            Ok(stream) => self.take_control(peer, connection, stream),
            // It goes on where it is, and the next tick tries again.
            Err(error) if moved => tracing::debug!(%peer, %error, "the conversation could not be moved"),
            Err(error) => {
                tracing::debug!(%peer, %error, "control stream could not be opened");
                self.drop_member(peer);
            }
        }
    }

    /// A control stream is there: the first begins the conversation, and a direct one takes it over from a circuit. Others
    /// are of no use, and dropped here.
    pub(super) fn take_control(&mut self, peer: PeerId, id: ConnectionId, stream: Stream) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (address, is_circuit) = (connection.remote.to_string(), connection.carrier == Carrier::Circuit);
        let moves = !is_circuit && self.members.get(&peer).is_some_and(|member| self.talks_on_circuit(member));
        let Some(member) = self.members.get_mut(&peer).filter(|member| member.links.contains(&id)) else { return };
        match core::mem::replace(&mut member.talk, Talk::Over) {
            Talk::Awaited(queue) | Talk::Opening(queue) => {
                member.talks_on = Some(id);
                member.state.set_path(address, is_circuit);
                self.begin_conversation(peer, stream, queue);
            }
            Talk::Running(orders) => {
                if moves && orders.try_send(Order::MoveTo(Box::new(stream))).is_ok() {
                    tracing::info!(%peer, %address, "the relayed peer is reached directly now");
                    member.talks_on = Some(id);
                    member.state.set_path(address, false);
                }
                member.talk = Talk::Running(orders);
            }
            Talk::Over => {}
        }
    }

    /// From now on the peer is connected.
    fn begin_conversation(&mut self, peer: PeerId, stream: Stream, queue: mpsc::Receiver<Vec<u8>>) {
        let Some(member) = self.members.get_mut(&peer) else { return };
        let (orders, order_queue) = mpsc::channel(ORDER_QUEUE);
        member.talk = Talk::Running(orders);
        let conversation = Conversation {
            state: Arc::clone(&member.state),
            shared: Arc::clone(&self.shared),
            events: self.events.clone(),
            presence: member.presence.clone(),
            reporter: self.reporter.clone(),
        };
        let state = Arc::clone(&member.state);
        self.shared.peers.write().unwrap_or_else(PoisonError::into_inner).insert(peer, state);
        self.note_bulk(peer);
        let reporter = self.reporter.clone();
        tokio::spawn(async move {
            let why = conversation.run(stream, queue, order_queue).await;
            drop(reporter.send(Report::Ended { peer, why }).await);
            conversation.tell_departed(why).await;
            drop(reporter.send(Report::Told { peer }).await);
        });
    }

    /// A conversation ended: the peer is not connected any more, whatever its connections do.
    pub(super) fn handle_ended(&mut self, peer: PeerId, why: Departure) {
        let now = Instant::now();
        let Some(member) = self.members.get_mut(&peer) else { return };
        member.talk = Talk::Over;
        let links = core::mem::take(&mut member.links);
        for id in links {
            self.give_up(id);
        }
        self.forget_neighbours_of(peer);
        if why == Departure::Faulty {
            self.swarm.behaviour_mut().streams.gate.faulty(peer, now);
        }
        for carrier in Carrier::ALL {
            self.dialing.lost(peer, carrier, now);
        }
    }

    /// A member that never got a conversation leaves no trace.
    fn drop_member(&mut self, peer: PeerId) {
        let Some(member) = self.members.get(&peer) else { return };
        if matches!(member.talk, Talk::Running(_) | Talk::Over) {
            return;
        }
        if let Some(member) = self.members.remove(&peer) {
            for id in member.links {
                self.give_up(id);
            }
        }
        for carrier in Carrier::ALL {
            self.dialing.failed(crate::dialing::Target::Peer(peer), carrier, Instant::now(), rand::random());
        }
    }

    /// Members whose control stream does not come are not kept.
    pub(super) fn end_idle_members(&mut self, now: Instant) {
        let idle = |member: &Neighbour| {
            matches!(member.talk, Talk::Awaited(_) | Talk::Opening(_)) && now >= member.state.since + SILENT_LIMIT
        };
        let idle: Vec<_> = self.members.iter().filter(|(_, m)| idle(m)).map(|(peer, _)| *peer).collect();
        for peer in idle {
            tracing::debug!(%peer, "no control stream came");
            self.drop_member(peer);
        }
    }

    /// A connection of a peer is no longer one.
    pub(super) fn unlink(&mut self, peer: PeerId, id: ConnectionId) {
        let Some(member) = self.members.get_mut(&peer) else { return };
        member.links.retain(|link| *link != id);
        let unheard = matches!(member.talk, Talk::Awaited(_) | Talk::Opening(_));
        if unheard && member.links.is_empty() {
            self.members.remove(&peer);
        }
        self.note_bulk(peer);
    }

    /// A connection closed by itself: when a process dies, TCP tells at once, and its peer is asked.
    pub(super) fn suspect(&mut self, peer: PeerId) {
        if let Some(member) = self.members.get(&peer) {
            // Without a conversation there is nobody to suspect.
            drop(member.order(Order::Suspect));
        }
    }

    /// Whether bulk has a connection of its own.
    pub(super) fn note_bulk(&mut self, peer: PeerId) {
        let usable = self.ready_link(peer, Carrier::Tcp).is_some();
        if let Some(member) = self.members.get(&peer) {
            member.state.set_has_bulk(usable);
        }
    }

    /// As the peer with the smaller id: closes what is doubled, the younger ones, after a while.
    pub(super) fn close_spares(&mut self, now: Instant) {
        let me = self.shared.me;
        let mut spare = Vec::new();
        for (_, member) in self.members.iter().filter(|(peer, _)| me < **peer) {
            for carrier in Carrier::ALL {
                let same = member.links.iter().filter(|id| {
                    self.connections.get(id).is_some_and(|c| c.carrier == carrier && c.phase == Phase::Ready)
                });
                let old = |id: &&ConnectionId| self.connections.get(id).is_some_and(|c| now >= c.since + SPARE_LIMIT);
                spare.extend(same.skip(1).filter(old).copied());
            }
        }
        for id in spare {
            self.give_up(id);
        }
    }

    /// Tells all conversations to say goodbye, and forgets everybody else.
    pub(super) fn leave_members(&mut self, cause: DepartureCause, notice_ms: u32) {
        self.shared.peers.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.members.retain(|_, member| member.order(Order::Leave { cause, notice_ms }).is_ok());
    }
}
