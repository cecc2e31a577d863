//! The event loop: owns libp2p's swarm, waits for everything, does nothing slow itself.
//!
//! ```text
//! libp2p events  --> connections (hello) --> admission --> members (control conversation) --> agent
//! commands       --> opening of streams, shutting down
//! reports        <-- tasks: hellos, openers, conversations, name look-ups
//! tick           --> deadlines, dialing, spare connections, address book
//! ```
//!
//! A file a conversation: `connections` from the handshake to the hello, `admission` decides who may come in,
//! `members` what happens while they are here, `inbound` routes their streams, `dials` carries out the dialing plan,
//! `circuits` has members that do not reach each other find a way.

mod admission;
mod circuits;
mod connections;
mod dials;
mod inbound;
mod members;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use futures::StreamExt;
use idlewild_protocol::{DepartureCause, Neighbours, PeerId};
use libp2p::swarm::{ConnectionId, SwarmEvent as Libp2pEvent};
use libp2p::{Multiaddr, Stream, mdns};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};

use crate::address::{Place, is_circuit, with_peer};
use crate::behaviour::{Behaviour, BehaviourEvent};
use crate::book::Book;
use crate::dialing::Dialing;
use crate::event::{Departure, Hint, SwarmEvent};
use crate::handle::{Command, Shared};
use crate::hello::{Failure, Member, Outcome, Papers};
use crate::sparse::Sparse;
use crate::{OpenError, RelayMode};

pub(crate) use connections::{Connection, HelloOf};
pub(crate) use members::Neighbour;

/// How often deadlines, dials and spare connections are looked at while something is in the making.
const TICK: Duration = Duration::from_millis(250);

/// The same while every connection is what it should be: an idle agent sleeps as long as it can.
const SETTLED_TICK: Duration = Duration::from_secs(1);

/// How often a changed address book is written.
const BOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Reports of tasks that may wait. Tasks wait for room.
const REPORT_QUEUE: usize = 1024;

/// How long closing connections may take at the end.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// How long goodbyes may take to be written.
const GOODBYE_LIMIT: Duration = Duration::from_millis(700);

/// What tasks tell the event loop.
#[derive(Debug)]
pub(crate) enum Report {
    /// A peer has shown its papers on a connection. May it come in?
    Admit { connection: ConnectionId, member: Member, reply: oneshot::Sender<Admission> },
    /// A hello ended.
    Hello { of: HelloOf, result: Result<Outcome, Failure> },
    /// A control stream that we opened.
    Control { peer: PeerId, connection: ConnectionId, result: Result<Stream, OpenError> },
    /// A member says whom it is connected to.
    Neighbours { from: PeerId, neighbours: Neighbours },
    /// A conversation ended: give the connections up.
    Ended { peer: PeerId, why: Departure },
    /// The agent was told of it: the peer may come again.
    Told { peer: PeerId },
    /// A static peer's name was looked up.
    Resolved { index: usize, places: Vec<Place> },
}

/// The answer to [`Report::Admit`].
#[derive(Debug)]
pub(crate) enum Admission {
    /// Yes, as soon as this comes: the connection takes the peer's streams then.
    Granted(oneshot::Receiver<()>),
    /// Another process of the same identity is connected; ask again when this ends without a value, refuse if it has
    /// one.
    Contested(oneshot::Receiver<()>),
    /// An earlier connection is being cleared away: ask again in a moment.
    Later,
    /// No.
    Refused(idlewild_protocol::Refusal),
}

/// What the event loop is made of.
pub(crate) struct Parts {
    pub(crate) swarm: libp2p::Swarm<Behaviour>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) papers: Papers,
    pub(crate) dialing: Dialing,
    pub(crate) book: Book,
    pub(crate) relays: RelayMode,
    pub(crate) reuse_quic_port: bool,
    pub(crate) events: mpsc::Sender<SwarmEvent>,
    pub(crate) commands: mpsc::Receiver<Command>,
}

/// The event loop.
pub(crate) struct EventLoop {
    swarm: libp2p::Swarm<Behaviour>,
    shared: Arc<Shared>,
    papers: Arc<Papers>,
    dialing: Dialing,
    book: Book,
    book_written: Instant,
    /// Whether QUIC dials go out from the listening port.
    reuse_quic_port: bool,
    events: mpsc::Sender<SwarmEvent>,
    commands: mpsc::Receiver<Command>,
    reports: mpsc::Receiver<Report>,
    reporter: mpsc::Sender<Report>,
    connections: BTreeMap<ConnectionId, Connection>,
    members: BTreeMap<PeerId, Neighbour>,
    dials: BTreeMap<ConnectionId, dials::Dial>,
    circuits: circuits::Circuits,
    clone_told: bool,
    /// Anybody's forged packet makes one.
    listener_errors: Sparse,
}

impl EventLoop {
    pub(crate) fn new(parts: Parts) -> Self {
        let (reporter, reports) = mpsc::channel(REPORT_QUEUE);
        Self {
            swarm: parts.swarm,
            shared: parts.shared,
            papers: Arc::new(parts.papers),
            dialing: parts.dialing,
            book: parts.book,
            book_written: Instant::now(),
            reuse_quic_port: parts.reuse_quic_port,
            events: parts.events,
            commands: parts.commands,
            reports,
            reporter,
            connections: BTreeMap::new(),
            members: BTreeMap::new(),
            dials: BTreeMap::new(),
            circuits: circuits::Circuits::new(parts.relays),
            clone_told: false,
            listener_errors: Sparse::default(),
        }
    }

    /// Runs until it is told to shut down, or until all handles are gone.
    pub(crate) async fn run(mut self) {
        self.begin_relaying();
        let mut ticked = Instant::now();
        let (cause, notice_ms, done) = loop {
            let pace = if self.is_settled() { SETTLED_TICK } else { TICK };
            tokio::select! {
                event = self.swarm.select_next_some() => self.handle_libp2p(event),
                Some(report) = self.reports.recv() => self.handle_report(report),
                command = self.commands.recv() => match command {
                    Some(Command::Open { peer, protocol, reply }) => self.open(peer, protocol, reply),
                    Some(Command::ShutDown { cause, notice_ms, done }) => break (cause, notice_ms, Some(done)),
                    None => break (DepartureCause::Shutdown, 0, None),
                },
                () = sleep_until((ticked + pace).into()) => {
                    ticked = Instant::now();
                    self.handle_tick();
                }
            }
        };
        self.shut_down(cause, notice_ms).await;
        if let Some(done) = done {
            // Whoever asked may have given up.
            let _ = done.send(());
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "libp2p may add events")]
    fn handle_libp2p(&mut self, event: Libp2pEvent<BehaviourEvent>) {
        match event {
            Libp2pEvent::Behaviour(BehaviourEvent::Streams(inbound)) => self.handle_inbound(inbound),
            Libp2pEvent::Behaviour(BehaviourEvent::Mdns(mdns::Event::Discovered(found))) => {
                self.handle_discovered(found);
            }
            Libp2pEvent::Behaviour(BehaviourEvent::Relay(event)) => self.handle_relay(&event),
            Libp2pEvent::Behaviour(BehaviourEvent::Circuits(event)) => tracing::debug!(?event, "a relay's answer"),
            Libp2pEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                self.handle_established(peer_id, connection_id, &endpoint);
            }
            Libp2pEvent::ConnectionClosed { connection_id, .. } => self.handle_closed(connection_id),
            Libp2pEvent::IncomingConnectionError { send_back_addr, error, .. } => {
                self.handle_incoming_error(&send_back_addr, &error);
            }
            Libp2pEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.handle_dial_error(connection_id, &error);
            }
            Libp2pEvent::NewListenAddr { address, .. } => self.handle_new_address(&address),
            Libp2pEvent::ExpiredListenAddr { address, .. } => self.forget_listener(&address),
            Libp2pEvent::ListenerClosed { listener_id, reason, .. } if self.circuits.has(listener_id) => {
                self.handle_reservation_ended(listener_id, &reason);
            }
            Libp2pEvent::ListenerClosed { addresses, reason, .. } => {
                for address in &addresses {
                    self.forget_listener(address);
                }
                tracing::warn!(?addresses, ?reason, "a listener closed");
            }
            Libp2pEvent::ListenerError { error, .. } => {
                if let Some(left_out) = self.listener_errors.may_say(Instant::now()) {
                    tracing::warn!(%error, left_out, "a listener failed");
                }
            }
            // Of no use to us: dials in the making, external addresses, and what mDNS does not announce any more (it is
            // a hint, never presence).
            _ => {}
        }
    }

    fn handle_report(&mut self, report: Report) {
        match report {
            Report::Admit { connection, member, reply } => {
                // A hello that was given up does not wait any more.
                let _ = reply.send(self.admit(connection, member));
            }
            Report::Hello { of, result } => self.handle_hello(&of, &result),
            Report::Control { peer, connection, result } => self.handle_control_opened(peer, connection, result),
            Report::Neighbours { from, neighbours } => self.handle_neighbours(from, neighbours),
            Report::Ended { peer, why } => self.handle_ended(peer, why),
            Report::Told { peer } => {
                self.members.remove(&peer);
                self.forget_neighbours_of(peer);
            }
            Report::Resolved { index, places } => self.dialing.resolved(index, places, Instant::now()),
        }
    }

    /// Whether nothing is being dialled, greeted or opened.
    fn is_settled(&self) -> bool {
        self.dials.is_empty()
            && self.connections.values().all(|connection| connection.phase == connections::Phase::Ready)
            && self.members.values().all(Neighbour::is_heard)
    }

    fn handle_tick(&mut self) {
        let now = Instant::now();
        self.end_late_hellos(now);
        self.open_controls(now);
        self.end_idle_members(now);
        self.close_spares(now);
        self.move_conversations(now);
        self.close_idle_circuits(now);
        self.keep_reservations(now);
        self.tell_neighbours(now);
        self.dial_due(now);
        if now >= self.book_written + BOOK_INTERVAL {
            self.book_written = now;
            self.write_book();
        }
    }

    /// Log material and hints: may be dropped if the agent does not take events.
    fn tell(&self, event: SwarmEvent) {
        drop(self.events.try_send(event));
    }

    fn handle_new_address(&mut self, address: &Multiaddr) {
        if is_circuit(address) {
            tracing::info!(%address, "members may call this peer through a relay");
            return;
        }
        self.swarm.behaviour_mut().streams.gate.interfaces.refresh();
        let interfaces = &self.swarm.behaviour().streams.gate.interfaces;
        if let Some((place, _)) = Place::of(address) {
            self.dialing.own_place(place);
            if interfaces.is_reachable(place.0.ip()) {
                let text = with_peer(address.clone(), self.shared.me);
                let mut listeners = self.shared.listeners.write().unwrap_or_else(PoisonError::into_inner);
                if !listeners.contains(&text) {
                    listeners.push(text.clone());
                }
                drop(listeners);
                // A relay tells those for whom it relays where it is.
                self.swarm.add_external_address(address.clone());
                self.tell(SwarmEvent::Listening(text));
            }
        }
        self.dialing.restart(Instant::now());
    }

    fn forget_listener(&mut self, address: &Multiaddr) {
        self.swarm.remove_external_address(address);
        self.swarm.behaviour_mut().streams.gate.interfaces.refresh();
        let text = with_peer(address.clone(), self.shared.me);
        self.shared.listeners.write().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != text);
    }

    fn tell_clone(&mut self, address: &Multiaddr) {
        if !core::mem::replace(&mut self.clone_told, true) {
            let address = address.to_string();
            tracing::warn!(%address, "another agent with this identity answers");
            self.tell(SwarmEvent::Hint(Hint::Clone { address }));
        }
    }

    fn write_book(&mut self) {
        if let Some(changes) = self.book.take_changes() {
            tokio::task::spawn_blocking(move || {
                if let Err(error) = changes.write() {
                    tracing::warn!(%error, "address book could not be written");
                }
            });
        }
    }

    async fn shut_down(&mut self, cause: DepartureCause, notice_ms: u32) {
        self.leave_members(cause, notice_ms);
        // Conversations write their goodbyes and end; their reports are of no interest any more, but take room.
        let goodbyes = async {
            while !self.members.is_empty() {
                tokio::select! {
                    _ = self.swarm.select_next_some() => {}
                    report = self.reports.recv() => match report {
                        Some(Report::Ended { peer, .. }) => drop(self.members.remove(&peer)),
                        Some(_) => {}
                        None => break,
                    }
                }
            }
        };
        drop(timeout(GOODBYE_LIMIT, goodbyes).await);
        let open: Vec<_> = self.connections.keys().copied().collect();
        for connection in open {
            self.swarm.close_connection(connection);
        }
        let closed = async {
            while self.swarm.network_info().connection_counters().num_established() > 0 {
                self.swarm.select_next_some().await;
            }
        };
        drop(timeout(CLOSE_LIMIT, closed).await);
        if let Some(changes) = self.book.take_changes() {
            // The last thing this thread does.
            if let Err(error) = changes.write() {
                tracing::warn!(%error, "address book could not be written");
            }
        }
    }
}
