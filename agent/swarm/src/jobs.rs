//! Job streams: one request on one worker, seen from its origin ([`JobClient`]) and from its worker ([`JobServer`]).
//!
//! Dropping either end closes the stream, and the other end learns of it at once: for a worker that is a cancel, for an
//! origin a lost worker. `next` and `send` may be dropped half-way (in a `select!`) without losing or cutting a
//! message.

use core::time::Duration;

use futures::io::{ReadHalf, WriteHalf};
use idlewild_protocol::{JobEvent, JobRequest, PeerId};
use libp2p::Stream;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::frames::{FrameReader, FrameWriter, ReadError, WriteError, close_behind, framed};
use crate::handle::Opened;
use crate::{JobLost, SwarmEvent};

/// How long the other end may take nothing before the job is given up. Above any pause of a live peer (its liveness
/// timeout is 1.5 s), below what a person waits.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// How long a dropped stream may go on to deliver what was written.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long a new job stream may stay without its start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// The origin's end of a job.
#[derive(Debug)]
pub struct JobClient {
    peer: PeerId,
    ends: Ends,
}

impl JobClient {
    /// Sends a start, or a prepare, on a stream that was just opened.
    pub(crate) async fn begin(
        peer: PeerId,
        Opened { stream, slot }: Opened,
        runtime: Handle,
        first: JobRequest,
    ) -> Result<Self, JobLost> {
        let mut client = Self { peer, ends: Ends::new(stream, runtime, slot) };
        client.send(first).await?;
        Ok(client)
    }

    /// The worker.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// Says something to the worker.
    pub async fn send(&mut self, request: JobRequest) -> Result<(), JobLost> {
        self.ends.send(&request).await
    }

    /// What the worker says next. Waits as long as the connection lives: the deadlines of a request are its origin's.
    pub async fn next(&mut self) -> Result<JobEvent, JobLost> {
        self.ends.next().await
    }
}

/// The worker's end of a job.
#[derive(Debug)]
pub struct JobServer {
    peer: PeerId,
    ends: Ends,
}

impl JobServer {
    /// Waits for the start, or the prepare, on a stream that was just accepted.
    pub(crate) async fn accept(
        peer: PeerId,
        Opened { stream, slot }: Opened,
        runtime: Handle,
    ) -> Result<SwarmEvent, JobLost> {
        let mut server = Self { peer, ends: Ends::new(stream, runtime, slot) };
        match timeout(START_LIMIT, server.next()).await {
            Ok(Ok(JobRequest::Start(start))) => Ok(SwarmEvent::Job { job: server, start }),
            Ok(Ok(JobRequest::Prepare(start))) => Ok(SwarmEvent::Prepare { job: server, start }),
            Ok(Ok(_)) => Err(JobLost::Closed),
            Ok(Err(lost)) => Err(lost),
            Err(_elapsed) => Err(JobLost::Stalled),
        }
    }

    /// The origin.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// What the origin says next: a cancel, or the end of the stream, which means the same.
    pub async fn next(&mut self) -> Result<JobRequest, JobLost> {
        self.ends.next().await
    }

    /// Says something to the origin.
    pub async fn send(&mut self, event: JobEvent) -> Result<(), JobLost> {
        self.ends.send(&event).await
    }
}

/// Both directions of a job's stream.
#[derive(Debug)]
struct Ends {
    reader: FrameReader<ReadHalf<Stream>>,
    /// Taken when dropped.
    writer: Option<FrameWriter<WriteHalf<Stream>>>,
    runtime: Handle,
    /// Given back when the stream is closed.
    slot: Option<OwnedSemaphorePermit>,
}

impl Ends {
    fn new(stream: Stream, runtime: Handle, slot: Option<OwnedSemaphorePermit>) -> Self {
        let (reader, writer) = framed(stream);
        Self { reader, writer: Some(writer), runtime, slot }
    }

    async fn next<M: idlewild_protocol::Message>(&mut self) -> Result<M, JobLost> {
        self.reader.next().await.map_err(|error| match error {
            ReadError::End | ReadError::Broken => JobLost::Closed,
            ReadError::Malformed(what) => JobLost::Malformed(what),
        })
    }

    async fn send<M: idlewild_protocol::Message>(&mut self, message: &M) -> Result<(), JobLost> {
        let writer = self.writer.as_mut().ok_or(JobLost::Closed)?;
        match timeout(STALL_LIMIT, writer.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(WriteError::TooLarge)) => Err(JobLost::TooLarge),
            Ok(Err(WriteError::Broken)) => Err(JobLost::Closed),
            Err(_elapsed) => Err(JobLost::Stalled),
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            close_behind(&self.runtime, writer, CLOSE_LIMIT, self.slot.take());
        }
    }
}
