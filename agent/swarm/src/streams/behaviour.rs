//! Streams of all connections, and the gate that decides which connections come about at all.

use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::time::Instant;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, NotifyHandler, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId, Stream};
use tokio::sync::oneshot;

use super::Kind;
use super::handler::{Handler, Instruction, Opener};
use crate::gate::{Denied, Gate};
use crate::identity::from_libp2p;

/// A stream that the other side opened.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) connection: ConnectionId,
    pub(crate) kind: Kind,
    pub(crate) stream: Stream,
}

/// Streams of all connections.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Who may connect.
    pub(crate) gate: Gate,
    /// Emptied at each poll, before libp2p takes anything else from a connection.
    queue: VecDeque<ToSwarm<Inbound, Instruction>>,
    waker: Option<Waker>,
}

impl Streams {
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate, queue: VecDeque::new(), waker: None }
    }

    /// Opens a stream on one connection. The opener is dropped where that connection is gone.
    pub(crate) fn open(&mut self, peer: PeerId, connection: ConnectionId, kind: Kind, opener: Opener) {
        self.instruct(peer, connection, Instruction::Open(kind, opener));
    }

    /// Takes all kinds of streams on this connection from now on; `done` hears when that is so.
    pub(crate) fn admit(&mut self, peer: PeerId, connection: ConnectionId, done: oneshot::Sender<()>) {
        self.instruct(peer, connection, Instruction::Admit(done));
    }

    fn instruct(&mut self, peer_id: PeerId, connection: ConnectionId, event: Instruction) {
        self.queue.push_back(ToSwarm::NotifyHandler { peer_id, handler: NotifyHandler::One(connection), event });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn established(&self, peer: PeerId) -> Result<Handler, ConnectionDenied> {
        let peer = from_libp2p(peer).ok_or_else(|| ConnectionDenied::new(Denied::NotOurKind))?;
        self.gate.check_peer(peer, Instant::now()).map_err(ConnectionDenied::new)?;
        Ok(Handler::default())
    }
}

impl NetworkBehaviour for Streams {
    type ConnectionHandler = Handler;
    type ToSwarm = Inbound;

    fn handle_pending_inbound_connection(
        &mut self,
        _connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.gate.check_incoming(local, remote, Instant::now()).map_err(ConnectionDenied::new)
    }

    fn handle_established_inbound_connection(
        &mut self,
        _connection: ConnectionId,
        peer: PeerId,
        _local: &Multiaddr,
        _remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.established(peer)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _connection: ConnectionId,
        peer: PeerId,
        _address: &Multiaddr,
        _role: Endpoint,
        _port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.established(peer)
    }

    fn on_swarm_event(&mut self, _event: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        _peer: PeerId,
        connection: ConnectionId,
        (kind, stream): THandlerOutEvent<Self>,
    ) {
        self.queue.push_back(ToSwarm::GenerateEvent(Inbound { connection, kind, stream }));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Inbound, THandlerInEvent<Self>>> {
        if let Some(next) = self.queue.pop_front() {
            return Poll::Ready(next);
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
