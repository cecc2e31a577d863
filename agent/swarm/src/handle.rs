//! The agent's hold on its swarm: cheap to clone, never blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use idlewild_protocol::{
    BootId, ContextOpen, ControlMessage, DepartureCause, JobRequest, JobStart, PeerId, Protocol, frame,
};
use libp2p::Stream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::budget::Budget;
use crate::contexts;
use crate::peer::PeerState;
use crate::{ContextClient, JobClient, OpenError, PeerLink, Probe, ProbeError, SendError};

/// How long opening a stream and sending what it is for may take: several round trips of any link worth using, and less
/// than the liveness timeout and the deadlines of a request add up to.
const OPEN_LIMIT: Duration = Duration::from_secs(3);

/// How long shutting down waits for goodbyes and closing connections.
const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(2);

/// Requests of handles that may wait for the event loop.
pub(crate) const COMMAND_QUEUE: usize = 256;

/// A stream in the making. The slot is held as long as the stream, where a connection has few of them.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) stream: oneshot::Receiver<Result<Stream, OpenError>>,
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

/// A stream, and its place among the few that its connection may have.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

/// What handles and tasks ask of the event loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// Open a stream on the connection that is meant for this protocol.
    Open { peer: PeerId, protocol: Protocol, reply: oneshot::Sender<Result<Opening, OpenError>> },
    /// Say goodbye to everyone and end.
    ShutDown { cause: DepartureCause, notice_ms: u32, done: oneshot::Sender<()> },
}

/// Bytes of control streams since the start, payload of the streams only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Sent to all peers.
    pub control_sent_bytes: u64,
    /// Received from all peers.
    pub control_received_bytes: u64,
    /// Control messages that were dropped because the agent did not take them.
    pub control_dropped: u64,
}

/// The counters behind [`Traffic`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// What handles, the event loop and the conversations share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) me: PeerId,
    pub(crate) boot: BootId,
    /// Of the swarm's own threads.
    pub(crate) runtime: Handle,
    pub(crate) peers: RwLock<BTreeMap<PeerId, Arc<PeerState>>>,
    /// Multiaddresses with the peer's id, fit for a ticket.
    pub(crate) listeners: RwLock<Vec<String>>,
    pub(crate) counters: Counters,
    /// Of probes.
    pub(crate) budget: Mutex<Budget>,
    /// Contexts that may be sent at once, to all peers.
    pub(crate) contexts: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(me: PeerId, boot: BootId, runtime: Handle) -> Self {
        Self {
            me,
            boot,
            runtime,
            peers: RwLock::default(),
            listeners: RwLock::default(),
            counters: Counters::default(),
            budget: Mutex::default(),
            contexts: Arc::new(Semaphore::new(contexts::MAX_SENT)),
        }
    }

    pub(crate) fn peer(&self, peer: PeerId) -> Option<Arc<PeerState>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&peer).cloned()
    }
}

/// The agent's hold on its swarm.
#[derive(Debug, Clone)]
pub struct Swarm {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl Swarm {
    /// This peer.
    pub fn me(&self) -> PeerId {
        self.shared.me
    }

    /// This life of its process.
    pub fn boot(&self) -> BootId {
        self.shared.boot
    }

    /// Addresses at which others can reach this peer, fit for a ticket.
    pub fn listeners(&self) -> Vec<String> {
        self.shared.listeners.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The members that are connected, in the order of their ids.
    pub fn peers(&self) -> Vec<PeerLink> {
        self.shared.peers.read().unwrap_or_else(PoisonError::into_inner).values().map(|peer| peer.link()).collect()
    }

    /// Bytes of control traffic since the start.
    pub fn traffic(&self) -> Traffic {
        let counters = &self.shared.counters;
        Traffic {
            control_sent_bytes: counters.sent.load(Ordering::Relaxed),
            control_received_bytes: counters.received.load(Ordering::Relaxed),
            control_dropped: counters.dropped.load(Ordering::Relaxed),
        }
    }

    /// Queues a message for a peer. Never blocks; whether it arrives is not told.
    pub fn send(&self, peer: PeerId, message: &ControlMessage) -> Result<(), SendError> {
        let frame = frame(message).map_err(|_too_large| SendError::TooLarge)?;
        let state = self.shared.peer(peer).ok_or(SendError::NotConnected)?;
        state.outgoing.try_send(frame).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::QueueFull,
            mpsc::error::TrySendError::Closed(_) => SendError::NotConnected,
        })
    }

    /// Opens a job stream to a peer and sends the start on it, within 3 s.
    pub async fn open_job(&self, peer: PeerId, start: JobStart) -> Result<JobClient, OpenError> {
        self.begin_job(peer, JobRequest::Start(Box::new(start))).await
    }

    /// The same for a peer that is to get ready for what runs elsewhere: the start is of epoch 0.
    pub async fn open_prepare(&self, peer: PeerId, start: JobStart) -> Result<JobClient, OpenError> {
        self.begin_job(peer, JobRequest::Prepare(Box::new(start))).await
    }

    /// Opens a stream to pull a context from a peer that holds it, on its bulk connection, within 3 s. Whether it serves
    /// this peer, its first answer says. To be called on a tokio runtime, where the stream's task then runs.
    pub async fn open_context(&self, peer: PeerId, context: ContextOpen) -> Result<ContextClient, OpenError> {
        let state = self.shared.peer(peer).ok_or(OpenError::NotConnected)?;
        if !state.link().has_bulk {
            return Err(OpenError::NoBulk);
        }
        let opened = timeout(OPEN_LIMIT, self.open(peer, Protocol::Bulk)).await;
        let opened = opened.map_err(|_elapsed| OpenError::TimedOut)??;
        Ok(ContextClient::begin(state, opened, context))
    }

    async fn begin_job(&self, peer: PeerId, first: JobRequest) -> Result<JobClient, OpenError> {
        let begin = async {
            let opened = self.open(peer, Protocol::Job).await?;
            JobClient::begin(peer, opened, self.shared.runtime.clone(), first).await.map_err(|lost| match lost {
                crate::JobLost::TooLarge => OpenError::TooLarge,
                crate::JobLost::Closed | crate::JobLost::Stalled | crate::JobLost::Malformed(_) => OpenError::Refused,
            })
        };
        timeout(OPEN_LIMIT, begin).await.unwrap_or(Err(OpenError::TimedOut))
    }

    /// Measures the link to a peer with a few hundred kilobytes each way, on its bulk connection.
    pub async fn probe(&self, peer: PeerId) -> Result<Probe, ProbeError> {
        crate::probe::run(self, peer).await
    }

    /// Tells every peer that this one leaves (`notice_ms` is passed on as it is), then closes all connections. Returns
    /// when that is done, within 2 s.
    pub async fn shut_down(&self, cause: DepartureCause, notice_ms: u32) {
        let (done, finished) = oneshot::channel();
        let end = async {
            if self.commands.send(Command::ShutDown { cause, notice_ms, done }).await.is_ok() {
                // An error means that the event loop has ended, which is what is wanted.
                drop(finished.await);
            }
        };
        drop(timeout(SHUT_DOWN_LIMIT, end).await);
    }

    pub(crate) async fn open(&self, peer: PeerId, protocol: Protocol) -> Result<Opened, OpenError> {
        let (reply, answer) = oneshot::channel();
        let asked = self.commands.send(Command::Open { peer, protocol, reply }).await;
        asked.map_err(|_ended| OpenError::NotConnected)?;
        let Opening { stream, slot } = answer.await.map_err(|_ended| OpenError::NotConnected)??;
        let stream = stream.await.unwrap_or(Err(OpenError::NotConnected))?;
        Ok(Opened { stream, slot })
    }
}
