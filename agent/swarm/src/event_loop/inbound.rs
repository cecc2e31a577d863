//! Streams that others open, and those that the agent asks for.

use core::time::Duration;
use std::sync::Arc;

use idlewild_protocol::{PeerId, Protocol};
use libp2p::Stream;
use libp2p::swarm::ConnectionId;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::EventLoop;
use super::connections::Phase;
use crate::address::Carrier;
use crate::event::SwarmEvent;
use crate::jobs::JobServer;
use crate::streams::{Inbound, Kind};
use crate::{OpenError, probe};

/// How long a job may wait for its peer's control stream, which is on its way at the same time.
const PRESENCE_LIMIT: Duration = Duration::from_secs(5);

/// How long a probe waits for the one before it.
const TURN_LIMIT: Duration = Duration::from_secs(2);

impl EventLoop {
    pub(super) fn handle_inbound(&mut self, inbound: Inbound) {
        let Inbound { connection: id, kind, stream } = inbound;
        let Some(connection) = self.connections.get(&id) else { return };
        let peer = connection.peer;
        match (connection.phase, kind) {
            (Phase::Hello, Kind::Hello) => self.answer_hello(id, stream),
            (Phase::Admitted | Phase::Ready, Kind::Control) if peer < self.shared.me => {
                self.accept_control(peer, id, stream);
            }
            (Phase::Admitted | Phase::Ready, Kind::Job) => self.accept_job(peer, stream),
            (Phase::Admitted | Phase::Ready, Kind::Bulk) => self.accept_bulk(peer, stream),
            (Phase::Closing, _) => {}
            // The rest is not what this peer may do: the stream is dropped and the connection with it.
            (Phase::Hello | Phase::Admitted | Phase::Ready, _) => {
                tracing::warn!(%peer, ?kind, "peer opened a stream that it may not open");
                self.give_up(id);
            }
        }
    }

    fn accept_control(&mut self, peer: PeerId, id: ConnectionId, stream: Stream) {
        if let (Some(member), Some(connection)) = (self.members.get(&peer), self.connections.get(&id)) {
            member.state.set_address(connection.remote.to_string());
        }
        self.begin_conversation(peer, stream);
    }

    fn accept_job(&mut self, peer: PeerId, stream: Stream) {
        let Some(member) = self.members.get(&peer) else { return };
        let (presence, events) = (member.presence.clone(), self.events.clone());
        let runtime = self.shared.runtime.clone();
        let tellers = presence.tellers.clone();
        tellers.spawn(async move {
            let told = timeout(PRESENCE_LIMIT, presence.told.cancelled()).await;
            if told.is_err() {
                return;
            }
            let accept = async {
                match JobServer::accept(peer, stream, runtime).await {
                    // An agent that is gone takes no jobs.
                    Ok((job, start)) => drop(events.send(SwarmEvent::Job { job, start }).await),
                    Err(lost) => tracing::debug!(%peer, %lost, "a job stream came to nothing"),
                }
            };
            tokio::select! {
                () = accept => {}
                () = presence.over.cancelled() => {}
            }
        });
    }

    fn accept_bulk(&mut self, peer: PeerId, stream: Stream) {
        let Some(member) = self.members.get(&peer) else { return };
        let turns = Arc::clone(&member.probes);
        let (state, shared) = (Arc::clone(&member.state), Arc::clone(&self.shared));
        tokio::spawn(async move {
            // The one before may not have seen its stream's end yet.
            match timeout(TURN_LIMIT, turns.acquire_owned()).await {
                Ok(Ok(turn)) => {
                    probe::serve(stream, &shared, &state).await;
                    drop(turn);
                }
                Ok(Err(_)) | Err(_) => tracing::debug!(%peer, "peer probes while it is probing"),
            }
        });
    }

    /// Opens a stream for the agent: bulk on TCP only, the rest on QUIC where there is one.
    pub(super) fn open(&mut self, peer: PeerId, protocol: Protocol, reply: oneshot::Sender<Result<Stream, OpenError>>) {
        let tcp = self.ready_link(peer, Carrier::Tcp);
        let (kind, link) = match protocol {
            Protocol::Bulk => (Kind::Bulk, tcp),
            Protocol::Job => (Kind::Job, self.ready_link(peer, Carrier::Quic).or(tcp)),
            // Control streams are the event loop's own.
            Protocol::Control => (Kind::Control, None),
        };
        match link {
            Some((libp2p, id)) => self.swarm.behaviour_mut().streams.open(libp2p, id, kind, reply),
            // Whoever asked may have given up.
            None => drop(reply.send(Err(OpenError::NotConnected))),
        }
    }
}
