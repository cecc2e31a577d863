//! The two ends of a job, whether its origin is another peer (a stream of the swarm) or this one (two channels).
//!
//! One code path for both: what works at home works away.

use idlewild_protocol::{JobEvent, JobRequest, PeerId};
use idlewild_swarm::{JobClient, JobServer};
use tokio::sync::mpsc;

/// Events that may wait between a worker and an origin in one process. A full channel slows the worker down, as a full
/// stream does.
const LOCAL_EVENTS: usize = 64;

/// Words of an origin that may wait: a destination hears each token.
const LOCAL_REQUESTS: usize = 64;

/// The other end is no more: it closed, or its peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other end of the job is gone")]
pub struct LineClosed;

/// The worker's end.
#[derive(Debug)]
pub enum WorkerEnd {
    /// Of a job that another peer sent.
    Remote(JobServer),
    /// Of a job of this peer's own.
    Local {
        /// This peer.
        me: PeerId,
        /// From the origin.
        requests: mpsc::Receiver<JobRequest>,
        /// To the origin.
        events: mpsc::Sender<JobEvent>,
    },
}

impl WorkerEnd {
    /// Who asks.
    pub fn origin(&self) -> PeerId {
        match self {
            Self::Remote(server) => server.peer(),
            Self::Local { me, .. } => *me,
        }
    }

    /// What the origin says next. May be dropped half-way without losing anything.
    pub async fn next(&mut self) -> Result<JobRequest, LineClosed> {
        match self {
            Self::Remote(server) => server.next().await.map_err(|_| LineClosed),
            Self::Local { requests, .. } => requests.recv().await.ok_or(LineClosed),
        }
    }

    /// Says something to the origin. May be dropped half-way without cutting a message.
    pub async fn send(&mut self, event: JobEvent) -> Result<(), LineClosed> {
        match self {
            Self::Remote(server) => server.send(event).await.map_err(|_| LineClosed),
            Self::Local { events, .. } => events.send(event).await.map_err(|_| LineClosed),
        }
    }
}

/// The origin's end. Dropping it cancels the job.
#[derive(Debug)]
pub enum OriginEnd {
    /// Of a job on another peer.
    Remote(Box<JobClient>),
    /// Of a job on this one.
    Local {
        /// To the worker.
        requests: mpsc::Sender<JobRequest>,
        /// From the worker.
        events: mpsc::Receiver<JobEvent>,
    },
}

impl OriginEnd {
    /// Says something to the worker. May be dropped half-way without cutting a message.
    pub async fn send(&mut self, request: JobRequest) -> Result<(), LineClosed> {
        match self {
            Self::Remote(client) => client.send(request).await.map_err(|_| LineClosed),
            Self::Local { requests, .. } => requests.send(request).await.map_err(|_| LineClosed),
        }
    }

    /// What the worker says next.
    pub async fn next(&mut self) -> Result<JobEvent, LineClosed> {
        match self {
            Self::Remote(client) => client.next().await.map_err(|_| LineClosed),
            Self::Local { events, .. } => events.recv().await.ok_or(LineClosed),
        }
    }
}

/// Both ends of a job that stays in this process.
pub fn local_line(me: PeerId) -> (OriginEnd, WorkerEnd) {
    let (requests_in, requests) = mpsc::channel(LOCAL_REQUESTS);
    let (events, events_out) = mpsc::channel(LOCAL_EVENTS);
    (OriginEnd::Local { requests: requests_in, events: events_out }, WorkerEnd::Local { me, requests, events })
}
