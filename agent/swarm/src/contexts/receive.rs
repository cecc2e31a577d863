//! The destination's task: sends pulls, reads chunks, checks them, and says how much has come.

use core::future;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use futures::{AsyncRead, AsyncWrite};
use idlewild_protocol::{ChunkHeader, ContextOpen, ContextReply, ContextRequest, Message, frame};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::client::{Progress, Pulled};
use super::meter::{LinkMeter, Reports};
use super::{CLOSE_LIMIT, ContextRange, Terms};
use crate::frames::{FrameReader, FrameWriter, ReadError};
use crate::{ContextFault, ContextLost};

/// Bytes read at once. What the hash reads next is still in the processor's cache.
const PIECE: usize = 128 * 1024;

/// The destination's task.
pub(super) struct Receive<R, W> {
    incoming: Incoming<R>,
    writer: FrameWriter<W>,
    open: ContextOpen,
    /// Pulls that were sent and have no answer.
    asked: VecDeque<ContextRange>,
    /// What the agent has not taken yet: nothing is read meanwhile.
    ready: Option<Pulled>,
    progress: Arc<Progress>,
    reports: Reports,
    meter: LinkMeter,
    /// Silence counts from here.
    heard: Instant,
    /// The other side takes nothing any more.
    is_mute: bool,
    terms: Terms,
}

/// What is read.
struct Incoming<R> {
    reader: FrameReader<R>,
    body: Option<Body>,
    /// Bytes of chunks so far.
    total: u64,
}

/// A chunk that is coming.
struct Body {
    header: ChunkHeader,
    bytes: Vec<u8>,
    filled: usize,
    hasher: blake3::Hasher,
}

/// One step of reading.
enum Step {
    Reply(ContextReply),
    /// So many bytes of a chunk.
    Came(usize),
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// May be dropped half-way.
    async fn step(&mut self) -> Result<Step, ReadError> {
        let Some(body) = &mut self.body else { return Ok(Step::Reply(self.reader.next().await?)) };
        let end = body.bytes.len().min(body.filled + PIECE);
        let room = body.bytes.get_mut(body.filled..end).unwrap_or_default();
        let read = self.reader.read(room).await?;
        body.hasher.update(room.get(..read).unwrap_or_default());
        body.filled += read;
        self.total += read as u64;
        Ok(Step::Came(read))
    }

    fn take_whole(&mut self) -> Option<Body> {
        self.body.take_if(|body| body.filled == body.bytes.len())
    }
}

impl<R, W> Receive<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(super) fn new(
        reader: FrameReader<R>,
        writer: FrameWriter<W>,
        open: ContextOpen,
        progress: Arc<Progress>,
        terms: Terms,
    ) -> Self {
        let now = Instant::now();
        Self {
            incoming: Incoming { reader, body: None, total: 0 },
            writer,
            open,
            asked: VecDeque::new(),
            ready: None,
            progress,
            reports: Reports::new(now),
            meter: LinkMeter::default(),
            heard: now,
            is_mute: false,
            terms,
        }
    }

    /// Adds a message to what is to be written.
    pub(super) fn ask<M: Message>(&mut self, message: &M) {
        // These messages are of a few bytes, whatever they say.
        if let Ok(frame) = frame(message) {
            self.writer.push(&frame);
        }
    }

    /// Runs until the agent drops its end, or the stream is lost. `measured` hears how many bytes a second the link carries.
    pub(super) async fn run(
        mut self,
        mut pulls: mpsc::Receiver<ContextRange>,
        results: mpsc::Sender<Result<Pulled, ContextLost>>,
        mut measured: impl FnMut(u64),
    ) {
        let lost = loop {
            let now = Instant::now();
            let silent_at = self.is_awaiting().then(|| self.heard + self.terms.silence_limit);
            let mut report_at = self.report_at();
            if report_at.is_some_and(|at| now >= at) {
                self.report(now);
                report_at = None;
            }
            tokio::select! {
                pull = pulls.recv() => match pull {
                    Some(range) => self.pull(range),
                    None => break None,
                },
                // What was sent before the other side closed is still to be read: that says when it ends.
                flushed = self.writer.flush(), if self.writer.is_pending() && !self.is_mute => {
                    self.is_mute = flushed.is_err();
                }
                permit = results.reserve(), if self.ready.is_some() => {
                    let (Ok(permit), Some(ready)) = (permit, self.ready.take()) else { break None };
                    permit.send(Ok(ready));
                    self.heard = Instant::now();
                }
                step = self.incoming.step(), if self.ready.is_none() => {
                    if let Err(lost) = self.handle(step, &mut measured) {
                        break Some(lost);
                    }
                }
                () = at(report_at) => {}
                () = at(silent_at) => break Some(ContextLost::Stalled),
            }
        };
        if let Some(lost) = lost {
            tracing::debug!(peer = %self.terms.peer, %lost, "a context's stream ended");
            drop(results.send(Err(lost)).await);
        }
        // The other side sees the end of the stream in any case.
        drop(tokio::time::timeout(CLOSE_LIMIT, self.writer.close()).await);
    }

    /// Whether something must come.
    fn is_awaiting(&self) -> bool {
        self.ready.is_none() && !self.asked.is_empty()
    }

    fn pull(&mut self, range: ContextRange) {
        if self.asked.is_empty() {
            self.heard = Instant::now();
        }
        self.asked.push_back(range);
        self.ask(&ContextRequest::Pull { from: range.from, to: range.to });
    }

    /// When to say how much has come. Not while something waits to be written: later there is more to say.
    fn report_at(&self) -> Option<Instant> {
        if self.writer.is_pending() { None } else { self.reports.due_at(self.incoming.total) }
    }

    fn report(&mut self, now: Instant) {
        let bytes = self.incoming.total;
        self.ask(&ContextRequest::Received { bytes });
        self.reports.told(bytes, now);
    }

    fn handle(&mut self, step: Result<Step, ReadError>, measured: &mut impl FnMut(u64)) -> Result<(), ContextLost> {
        let step = step.map_err(|error| match error {
            ReadError::End | ReadError::Broken => ContextLost::Closed,
            ReadError::Malformed(what) => ContextLost::Malformed(what),
        })?;
        let now = Instant::now();
        self.heard = now;
        match step {
            Step::Reply(ContextReply::Refused(refusal)) => {
                let range = self.asked.pop_front().ok_or(ContextLost::Refused(refusal))?;
                self.ready = Some(Pulled::Refused { range, refusal });
            }
            Step::Reply(ContextReply::Chunk(header)) => {
                self.check(&header).map_err(ContextLost::Faulty)?;
                let bytes = vec![0; header.bytes as usize];
                self.incoming.body = Some(Body { header, bytes, filled: 0, hasher: blake3::Hasher::new() });
                self.meter.interrupt();
            }
            Step::Came(bytes) => {
                self.progress.received(self.incoming.total, now);
                self.meter.came(bytes as u64, now);
                if let Some(body) = self.incoming.take_whole() {
                    self.finish(body)?;
                    if let Some(rate) = self.meter.take() {
                        measured(rate);
                    }
                }
            }
        }
        Ok(())
    }

    /// Judges a chunk before it is read.
    fn check(&self, header: &ChunkHeader) -> Result<(), ContextFault> {
        let asked = self.asked.front().ok_or(ContextFault::Unasked)?;
        if header.model != self.open.model {
            Err(ContextFault::OtherModel)
        } else if header.layout != self.open.layout {
            Err(ContextFault::OtherLayout)
        } else if (header.from, header.to) != (asked.from, asked.to) {
            Err(ContextFault::OtherRange)
        } else {
            Ok(())
        }
    }

    fn finish(&mut self, body: Body) -> Result<(), ContextLost> {
        let Body { header, bytes, hasher, .. } = body;
        if *hasher.finalize().as_bytes() != header.hash {
            return Err(ContextLost::Faulty(ContextFault::Hash));
        }
        self.asked.pop_front();
        self.ready = Some(Pulled::Chunk { header, bytes });
        Ok(())
    }
}

/// Waits until then; for ever if never.
pub(super) async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when.into()).await,
        None => future::pending().await,
    }
}
