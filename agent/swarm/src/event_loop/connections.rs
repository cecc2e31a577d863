//! Connections, from the handshake to the end of their hello, and their end.

use std::sync::Arc;
use std::time::Instant;

use idlewild_protocol::{PeerId, Refusal};
use libp2p::Multiaddr;
use libp2p::core::ConnectedPoint;
use libp2p::swarm::{ConnectionId, ListenError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::{Admission, EventLoop, Report};
use crate::address::{Carrier, Place, is_circuit};
use crate::event::{RefusedBy, SwarmEvent};
use crate::hello::{self, Failure, HELLO_LIMIT, Member, Outcome, Showing};
use crate::identity::from_libp2p;
use crate::muxer::MAX_STREAMS;
use crate::streams::Kind;
use crate::transport::TCP_SLOTS;

/// Between two questions for admission while an earlier connection of the peer is being cleared away.
const LATER: core::time::Duration = core::time::Duration::from_millis(50);

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its hello is to come, or under way.
    Hello,
    /// The other side is a member, and we take its streams.
    Admitted,
    /// It takes ours, too.
    Ready,
    /// It is being closed: what happens on it is of no interest.
    Closing,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: PeerId,
    /// The same, as libp2p wants it.
    pub(crate) libp2p: libp2p::PeerId,
    pub(crate) carrier: Carrier,
    pub(crate) remote: Multiaddr,
    /// Whether we dialled it.
    pub(crate) dialled: bool,
    pub(crate) since: Instant,
    pub(crate) phase: Phase,
    /// On TCP and a circuit: streams that the agent may still open.
    pub(crate) slots: Option<Arc<Semaphore>>,
    /// On a circuit: streams of the peer's jobs that may still come.
    pub(crate) served: Option<Arc<Semaphore>>,
    /// As listener: the dialer's hello stream has come.
    hello_begun: bool,
}

/// Whose hello a report is of. The connection itself may be gone by then.
#[derive(Debug, Clone)]
pub(crate) struct HelloOf {
    connection: ConnectionId,
    peer: PeerId,
    remote: Multiaddr,
    dialled: bool,
}

impl Connection {
    /// Where the peer can be dialled: where we did, or where its QUIC connection comes from (its listening port).
    pub(crate) fn place(&self) -> Option<Place> {
        let (place, carrier) = Place::of(&self.remote)?;
        (self.dialled || carrier == Carrier::Quic).then_some(place)
    }

    fn hello_of(&self, connection: ConnectionId) -> HelloOf {
        HelloOf { connection, peer: self.peer, remote: self.remote.clone(), dialled: self.dialled }
    }
}

impl EventLoop {
    pub(super) fn handle_established(&mut self, libp2p: libp2p::PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let (remote, carrier) = path(endpoint);
        let (Some(peer), Some(carrier)) = (from_libp2p(libp2p), carrier) else {
            self.swarm.close_connection(id);
            return;
        };
        let now = Instant::now();
        let dialled = endpoint.is_dialer();
        if let Some(dial) = self.dials.remove(&id) {
            let place = Place::of(&remote).map(|(place, _)| place);
            self.dialing.connected(dial.target, dial.carrier, peer, place, now);
        }
        tracing::debug!(%peer, %remote, dialled, "connection established");
        self.connections.insert(
            id,
            Connection {
                peer,
                libp2p,
                carrier,
                remote,
                dialled,
                since: now,
                phase: Phase::Hello,
                slots: (carrier != Carrier::Quic).then(|| Arc::new(Semaphore::new(TCP_SLOTS))),
                served: (carrier == Carrier::Circuit).then(|| Arc::new(Semaphore::new(MAX_STREAMS))),
                hello_begun: false,
            },
        );
        if dialled {
            self.begin_hello(id);
        }
    }

    /// As dialer: opens the hello stream and speaks first.
    fn begin_hello(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let of = connection.hello_of(id);
        let peer = connection.peer;
        let (opener, opened) = oneshot::channel();
        self.swarm.behaviour_mut().streams.open(connection.libp2p, id, Kind::Hello, opener);
        let (papers, reporter) = (Arc::clone(&self.papers), self.reporter.clone());
        tokio::spawn(async move {
            let ours = (papers.me, papers.boot, papers.swarm);
            let showing = Showing::Membership(papers.chain.clone());
            let exchange = async {
                let stream = opened.await.ok().and_then(Result::ok).ok_or(Failure::Broken)?;
                hello::dial(stream, ours, peer, showing, |member| ask(id, member, &reporter)).await
            };
            let result = timeout(HELLO_LIMIT, exchange).await.unwrap_or(Err(Failure::Broken));
            // The event loop ends only when nobody is interested any more.
            drop(reporter.send(Report::Hello { of, result }).await);
        });
    }

    /// As listener: answers the one hello of a connection.
    pub(super) fn answer_hello(&mut self, id: ConnectionId, stream: libp2p::Stream) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.dialled || core::mem::replace(&mut connection.hello_begun, true) {
            self.give_up(id);
            return;
        }
        let of = connection.hello_of(id);
        let peer = connection.peer;
        let (papers, reporter) = (Arc::clone(&self.papers), self.reporter.clone());
        tokio::spawn(async move {
            let exchange = hello::listen(stream, &papers, peer, |member| ask(id, member, &reporter));
            let result = timeout(HELLO_LIMIT, exchange).await.unwrap_or(Err(Failure::Broken));
            drop(reporter.send(Report::Hello { of, result }).await);
        });
    }

    pub(super) fn handle_hello(&mut self, of: &HelloOf, result: &Result<Outcome, Failure>) {
        let now = Instant::now();
        match result {
            Ok(Outcome::Members(_)) => self.handle_ready(of.connection, now),
            // It has its certificate and starts anew with it.
            Ok(Outcome::Newcomer(_)) => {
                tracing::info!(peer = %of.peer, "a newcomer redeemed its ticket");
                self.swarm.behaviour_mut().streams.gate.succeeded(of.peer, &of.remote, now);
                // A member's machine from now on: the other dials of its joining, which break off, are no stranger's.
                self.swarm.behaviour_mut().streams.gate.succeeded(of.peer, &of.remote, now);
                self.give_up(of.connection);
            }
            Err(Failure::Refused(refusal, by)) => self.handle_refusal(of, *refusal, *by, now),
            Err(Failure::Broken) => self.handle_broken_hello(of.connection, now),
        }
    }

    /// Both sides take each other's streams.
    fn handle_ready(&mut self, id: ConnectionId, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id).filter(|c| c.phase == Phase::Admitted) else { return };
        connection.phase = Phase::Ready;
        let (peer, carrier, place) = (connection.peer, connection.carrier, connection.place());
        let remote = connection.remote.clone();
        self.swarm.behaviour_mut().streams.gate.succeeded(peer, &remote, now);
        self.dialing.succeeded(peer, carrier, place, now);
        self.book.seen(peer, place, crate::membership::wall_clock_s());
        self.note_bulk(peer);
        self.note_reach(id);
        self.open_controls(now);
    }

    fn handle_refusal(&mut self, of: &HelloOf, refusal: Refusal, by: RefusedBy, now: Instant) {
        let HelloOf { connection, peer, ref remote, dialled } = *of;
        tracing::info!(%peer, %remote, ?refusal, ?by, "refused");
        // A machine that we dialled has not cost us what a stranger may: only its peer waits.
        let costly = (!dialled).then_some(remote);
        self.swarm.behaviour_mut().streams.gate.refused(peer, costly, refusal, now);
        self.tell(SwarmEvent::Refused { peer, refusal, by });
        self.give_up(connection);
    }

    fn handle_broken_hello(&mut self, id: ConnectionId, now: Instant) {
        let Some(connection) = self.connections.get(&id).filter(|c| c.phase != Phase::Closing) else { return };
        let (peer, remote) = (connection.peer, connection.remote.clone());
        tracing::debug!(%peer, %remote, "hello did not finish");
        self.note_broken_hello(id, now);
        self.give_up(id);
    }

    /// A connection ended before its hello: a stranger has had its handshake, a dial its attempt.
    fn note_broken_hello(&mut self, id: ConnectionId, now: Instant) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (peer, carrier, remote) = (connection.peer, connection.carrier, connection.remote.clone());
        if connection.dialled {
            let spread = rand::random();
            self.dialing.failed(crate::dialing::Target::Peer(peer), carrier, now, spread);
        } else {
            self.swarm.behaviour_mut().streams.gate.broke(&remote, now);
        }
    }

    /// Strangers have as long as a hello may take, whether they begin one or not.
    pub(super) fn end_late_hellos(&mut self, now: Instant) {
        let late = |connection: &Connection| {
            matches!(connection.phase, Phase::Hello | Phase::Admitted) && now >= connection.since + HELLO_LIMIT
        };
        let late: Vec<_> = self.connections.iter().filter(|(_, c)| late(c)).map(|(id, _)| *id).collect();
        for id in late {
            self.handle_broken_hello(id, now);
        }
    }

    /// Closes a connection and forgets what it was for.
    pub(super) fn give_up(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.phase = Phase::Closing;
            let peer = connection.peer;
            self.unlink(peer, id);
        }
        self.swarm.close_connection(id);
    }

    pub(super) fn handle_closed(&mut self, id: ConnectionId) {
        let now = Instant::now();
        if self.connections.get(&id).is_some_and(|connection| connection.phase == Phase::Hello) {
            self.note_broken_hello(id, now);
        }
        let Some(connection) = self.connections.remove(&id) else { return };
        tracing::debug!(peer = %connection.peer, carrier = ?connection.carrier, "connection closed");
        if matches!(connection.phase, Phase::Admitted | Phase::Ready) {
            self.dialing.lost(connection.peer, connection.carrier, now);
            self.unlink(connection.peer, id);
            self.suspect(connection.peer);
        }
    }

    pub(super) fn handle_incoming_error(&mut self, remote: &Multiaddr, error: &ListenError) {
        match error {
            // Refused by the gate or a limit: it has its wait already.
            ListenError::Denied { .. } => {}
            ListenError::LocalPeerId { .. } => {
                if Place::of(remote).is_some_and(|(place, _)| self.is_elsewhere(place)) {
                    self.tell_clone(remote);
                }
            }
            ListenError::Aborted | ListenError::WrongPeerId { .. } | ListenError::Transport(_) => {
                tracing::debug!(%remote, %error, "handshake failed");
                self.swarm.behaviour_mut().streams.gate.broke(remote, Instant::now());
            }
        }
    }

    /// Whether a place is on another machine. Of processes on this one nothing can be told by address.
    pub(super) fn is_elsewhere(&self, place: Place) -> bool {
        self.swarm.behaviour().streams.gate.interfaces.may_dial(place.0.ip()) && !place.0.ip().is_loopback()
    }
}

/// Where a connection leads, and how.
fn path(endpoint: &ConnectedPoint) -> (Multiaddr, Option<Carrier>) {
    let local = match endpoint {
        ConnectedPoint::Dialer { address, .. } => address,
        ConnectedPoint::Listener { local_addr, .. } => local_addr,
    };
    if is_circuit(local) {
        return (local.clone(), Some(Carrier::Circuit));
    }
    let remote = endpoint.get_remote_address().clone();
    let carrier = Place::of(&remote).map(|(_, carrier)| carrier);
    (remote, carrier)
}

/// Asks the event loop whether a peer may come in, and waits until its connection takes streams.
async fn ask(connection: ConnectionId, member: Member, reporter: &mpsc::Sender<Report>) -> Result<(), Refusal> {
    // Bounded by the hello's deadline.
    loop {
        let (reply, answer) = oneshot::channel();
        drop(reporter.send(Report::Admit { connection, member, reply }).await);
        match answer.await {
            Ok(Admission::Granted(ready)) => return ready.await.map_err(|_gone| Refusal::Busy),
            Ok(Admission::Contested(alive)) => {
                if alive.await.is_ok() {
                    return Err(Refusal::Clone);
                }
            }
            Ok(Admission::Later) => sleep(LATER).await,
            Ok(Admission::Refused(refusal)) => return Err(refusal),
            Err(_ended) => return Err(Refusal::Busy),
        }
    }
}
