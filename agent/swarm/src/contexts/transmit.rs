//! The holder's task: hears pulls and reports, sends chunks as fast as the pacer lets it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures::{AsyncRead, AsyncWrite};
use idlewild_protocol::{ContextReply, ContextRequest, frame};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::meter::LinkMeter;
use super::pacer::Pacer;
use super::receive::at;
use super::{CLOSE_LIMIT, ContextRange, PULLS_MAX, Terms};
use crate::frames::{FrameReader, FrameWriter, ReadError};
use crate::{ContextFault, ContextLost};

/// The answer to one pull.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reply: ContextReply,
    /// A chunk's bytes.
    pub(super) body: Vec<u8>,
}

/// The holder's task.
pub(super) struct Transmit<R, W> {
    reader: FrameReader<R>,
    outgoing: Outgoing<W>,
    pacer: Pacer,
    meter: LinkMeter,
    /// Pulls without an answer.
    waiting: usize,
    /// Silence counts from here.
    heard: Instant,
    terms: Terms,
}

/// What is written.
struct Outgoing<W> {
    writer: FrameWriter<W>,
    /// The chunk that is being sent, and how much of it was.
    body: Option<(Vec<u8>, usize)>,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    /// Writes what it can of the header, or of at most `room` bytes of the chunk; gives how many of the chunk. May be
    /// dropped half-way.
    async fn step(&mut self, room: usize) -> std::io::Result<usize> {
        self.writer.flush().await?;
        let Some((bytes, at)) = &mut self.body else { return Ok(0) };
        let end = bytes.len().min(*at + room);
        let written = self.writer.write_raw(bytes.get(*at..end).unwrap_or_default()).await?;
        *at += written;
        self.body.take_if(|(bytes, at)| *at == bytes.len());
        Ok(written)
    }
}

impl<R, W> Transmit<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(super) fn new(
        reader: FrameReader<R>,
        writer: FrameWriter<W>,
        round_trip: Option<Duration>,
        terms: Terms,
    ) -> Self {
        Self {
            reader,
            outgoing: Outgoing { writer, body: None },
            pacer: Pacer::new(round_trip),
            meter: LinkMeter::default(),
            waiting: 0,
            heard: Instant::now(),
            terms,
        }
    }

    /// Runs until the agent has dropped its end and its answers are sent, or until the stream is lost; `lost` then says why.
    /// `measured` hears how many bytes a second the link carries.
    pub(super) async fn run(
        mut self,
        pulls: mpsc::Sender<ContextRange>,
        mut answers: mpsc::Receiver<Answer>,
        lost: &OnceLock<ContextLost>,
        mut measured: impl FnMut(u64),
    ) {
        let why = loop {
            let room = self.pacer.room();
            let may_write = self.outgoing.writer.is_pending() || (self.outgoing.body.is_some() && room > 0);
            let silent_at = self.is_awaiting().then(|| self.heard + self.terms.silence_limit);
            tokio::select! {
                request = self.reader.next::<ContextRequest>() => {
                    if let Err(why) = self.handle(request, &pulls, &mut measured) {
                        break Some(why);
                    }
                }
                written = self.outgoing.step(room), if may_write => match written {
                    Ok(written) => self.wrote(written),
                    Err(_broken) => break Some(ContextLost::Closed),
                },
                answer = answers.recv(), if self.outgoing.body.is_none() => match answer {
                    Some(answer) => self.answer(answer),
                    None => break None,
                },
                () = at(silent_at) => break Some(ContextLost::Stalled),
            }
        };
        if let Some(why) = why {
            tracing::debug!(peer = %self.terms.peer, lost = %why, "a context's stream ended");
            // Written here only.
            let _ = lost.set(why);
        }
        drop(pulls);
        // The other side sees the end of the stream in any case.
        drop(timeout(CLOSE_LIMIT, self.outgoing.writer.close()).await);
    }

    /// Whether the destination must be heard from: something is on its way to it.
    fn is_awaiting(&self) -> bool {
        self.pacer.in_flight() > 0 || self.outgoing.body.is_some()
    }

    fn handle(
        &mut self,
        request: Result<ContextRequest, ReadError>,
        pulls: &mpsc::Sender<ContextRange>,
        measured: &mut impl FnMut(u64),
    ) -> Result<(), ContextLost> {
        let request = request.map_err(|error| match error {
            ReadError::End | ReadError::Broken => ContextLost::Closed,
            ReadError::Malformed(what) => ContextLost::Malformed(what),
        })?;
        match request {
            ContextRequest::Pull { from, to } if self.waiting < PULLS_MAX => {
                self.waiting += 1;
                // No more than fit; an agent that is gone sends nothing.
                let _ = pulls.try_send(ContextRange { from, to });
                Ok(())
            }
            ContextRequest::Pull { .. } => Err(ContextLost::Faulty(ContextFault::TooManyPulls)),
            ContextRequest::Received { bytes } => self.received(bytes, measured).map_err(ContextLost::Faulty),
        }
    }

    fn received(&mut self, total: u64, measured: &mut impl FnMut(u64)) -> Result<(), ContextFault> {
        let now = Instant::now();
        let before = self.pacer.in_flight();
        self.pacer.received(total, now)?;
        let came = before - self.pacer.in_flight();
        if came > 0 {
            self.heard = now;
            self.meter.came(came, now);
        }
        if self.pacer.in_flight() == 0 {
            self.meter.interrupt();
        }
        if let Some(rate) = self.meter.take() {
            measured(rate);
        }
        Ok(())
    }

    fn wrote(&mut self, bytes: usize) {
        if bytes > 0 {
            self.pacer.sent(bytes, Instant::now());
        }
    }

    fn answer(&mut self, Answer { reply, body }: Answer) {
        if !self.is_awaiting() {
            self.heard = Instant::now();
        }
        // A reply fits its frame: its figures were checked.
        if let Ok(header) = frame(&reply) {
            self.outgoing.writer.push(&header);
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.outgoing.body = (!body.is_empty()).then_some((body, 0));
    }
}
