//! Streams that others open, and those that the agent asks for.

use core::time::Duration;
use std::sync::Arc;

use idlewild_protocol::{BulkRequest, ContextOpen, PeerId, Protocol};
use libp2p::Stream;
use libp2p::swarm::ConnectionId;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::EventLoop;
use super::connections::Phase;
use crate::address::Carrier;
use crate::control::Presence;
use crate::event::SwarmEvent;
use crate::frames::{StreamReader, StreamWriter, framed};
use crate::handle::{Opened, Opening, Shared};
use crate::jobs::JobServer;
use crate::peer::PeerState;
use crate::streams::{Inbound, Kind};
use crate::{OpenError, contexts, probe};

/// How long a job may wait for its peer's control stream, which is on its way at the same time.
const PRESENCE_LIMIT: Duration = Duration::from_secs(5);

/// How long a new bulk stream may stay without saying what it is for.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// How long a probe waits for the one before it.
const TURN_LIMIT: Duration = Duration::from_secs(2);

/// What serves one peer's bulk stream.
struct Bulk {
    state: Arc<PeerState>,
    shared: Arc<Shared>,
    events: mpsc::Sender<SwarmEvent>,
    presence: Presence,
    probes: Arc<Semaphore>,
    contexts: Arc<Semaphore>,
}

impl Bulk {
    async fn serve(self, stream: Stream) {
        let (mut reader, writer) = framed(stream);
        match timeout(REQUEST_LIMIT, reader.next::<BulkRequest>()).await {
            Ok(Ok(BulkRequest::Probe { bytes })) => self.serve_probes(reader, writer, bytes).await,
            Ok(Ok(BulkRequest::Context(open))) => self.serve_context(reader, writer, open).await,
            Ok(Err(_)) | Err(_) => tracing::debug!(peer = %self.state.peer, "a bulk stream came to nothing"),
        }
    }

    async fn serve_probes(self, reader: StreamReader, writer: StreamWriter, bytes: u32) {
        // The one before may not have seen its stream's end yet.
        if let Ok(Ok(turn)) = timeout(TURN_LIMIT, self.probes.acquire_owned()).await {
            probe::serve((reader, writer), bytes, &self.shared, &self.state).await;
            drop(turn);
        } else {
            tracing::debug!(peer = %self.state.peer, "peer probes while it is probing");
        }
    }

    async fn serve_context(self, reader: StreamReader, writer: StreamWriter, open: ContextOpen) {
        let runtime = &self.shared.runtime;
        let own = self.contexts.try_acquire_owned();
        let (Ok(own), Ok(all)) = (own, Arc::clone(&self.shared.contexts).try_acquire_owned()) else {
            tracing::debug!(peer = %self.state.peer, "too many contexts are being sent");
            return contexts::turn_away(writer, runtime).await;
        };
        // The peer may be told of only a moment later; its pulls wait.
        if timeout(PRESENCE_LIMIT, self.presence.told.cancelled()).await.is_err() {
            return;
        }
        let context = contexts::accept((reader, writer), open, runtime, &self.state, (own, all));
        // An agent that is gone sends nothing.
        drop(self.events.send(SwarmEvent::Context { context, open }).await);
    }
}

impl EventLoop {
    pub(super) fn handle_inbound(&mut self, inbound: Inbound) {
        let Inbound { connection: id, kind, stream } = inbound;
        let Some(connection) = self.connections.get(&id) else { return };
        let peer = connection.peer;
        match (connection.phase, kind) {
            (Phase::Hello, Kind::Hello) => self.answer_hello(id, stream),
            (Phase::Admitted | Phase::Ready, Kind::Control) if peer < self.shared.me => {
                self.take_control(peer, id, stream);
            }
            (Phase::Admitted | Phase::Ready, Kind::Job) => self.accept_job(peer, id, stream),
            (Phase::Admitted | Phase::Ready, Kind::Bulk) => self.accept_bulk(peer, stream),
            (Phase::Closing, _) => {}
            // The rest is not what this peer may do: the stream is dropped and the connection with it.
            (Phase::Hello | Phase::Admitted | Phase::Ready, _) => {
                tracing::warn!(%peer, ?kind, "peer opened a stream that it may not open");
                self.give_up(id);
            }
        }
    }

    fn accept_job(&mut self, peer: PeerId, id: ConnectionId, stream: Stream) {
        let Some(member) = self.members.get(&peer) else { return };
        // Counted where the connection is to be closed when nothing runs on it.
        let served = self.connections.get(&id).and_then(|connection| connection.served.clone());
        let opened = Opened { stream, slot: served.and_then(|served| served.try_acquire_owned().ok()) };
        let (presence, events) = (member.presence.clone(), self.events.clone());
        let arriving = Arc::clone(&member.arriving);
        let runtime = self.shared.runtime.clone();
        let tellers = presence.tellers.clone();
        tellers.spawn(async move {
            let told = timeout(PRESENCE_LIMIT, presence.told.cancelled()).await;
            if told.is_err() {
                return;
            }
            let accept = async {
                let turn = arriving.acquire_owned().await;
                match JobServer::accept(peer, opened, runtime).await {
                    // An agent that is gone takes no jobs.
                    Ok(event) => drop(events.send(event).await),
                    Err(lost) => tracing::debug!(%peer, %lost, "a job stream came to nothing"),
                }
                drop(turn);
            };
            tokio::select! {
                () = accept => {}
                () = presence.over.cancelled() => {}
            }
        });
    }

    fn accept_bulk(&mut self, peer: PeerId, stream: Stream) {
        let Some(member) = self.members.get(&peer) else { return };
        let bulk = Bulk {
            state: Arc::clone(&member.state),
            shared: Arc::clone(&self.shared),
            events: self.events.clone(),
            presence: member.presence.clone(),
            probes: Arc::clone(&member.probes),
            contexts: Arc::clone(&member.contexts),
        };
        let tellers = bulk.presence.tellers.clone();
        tellers.spawn(async move {
            let over = bulk.presence.over.clone();
            tokio::select! {
                () = bulk.serve(stream) => {}
                () = over.cancelled() => {}
            }
        });
    }

    /// Opens a stream for the agent.
    pub(super) fn open(
        &mut self,
        peer: PeerId,
        protocol: Protocol,
        reply: oneshot::Sender<Result<Opening, OpenError>>,
    ) {
        // Whoever asked may have given up.
        drop(reply.send(self.begin_opening(peer, protocol)));
    }

    /// Bulk goes over TCP only, jobs over QUIC where there is one, and through a relay where nothing else is.
    fn begin_opening(&mut self, peer: PeerId, protocol: Protocol) -> Result<Opening, OpenError> {
        let tcp = self.ready_link(peer, Carrier::Tcp);
        let (kind, link) = match protocol {
            Protocol::Bulk => (Kind::Bulk, tcp),
            Protocol::Job => {
                let circuit = || self.ready_link(peer, Carrier::Circuit);
                (Kind::Job, self.ready_link(peer, Carrier::Quic).or(tcp).or_else(circuit))
            }
            // Control streams are the event loop's own.
            Protocol::Control => (Kind::Control, None),
        };
        let (libp2p, id) = link.ok_or(OpenError::NotConnected)?;
        let slots = self.connections.get(&id).and_then(|connection| connection.slots.clone());
        let slot = slots.map(Semaphore::try_acquire_owned).transpose().map_err(|_full| OpenError::Busy)?;
        let (opener, stream) = oneshot::channel();
        self.swarm.behaviour_mut().streams.open(libp2p, id, kind, opener);
        Ok(Opening { stream, slot })
    }
}
