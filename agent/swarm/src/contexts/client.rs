//! The destination's end of a context's stream.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::{AsyncRead, AsyncWrite};
use idlewild_protocol::{BulkRequest, ChunkHeader, ContextOpen, ContextRefusal, PeerId};
use tokio::sync::mpsc;

use super::meter::Recent;
use super::receive::Receive;
use super::{ContextRange, PULLS_MAX, SILENCE_LIMIT, Terms};
use crate::frames::{FrameReader, FrameWriter, framed};
use crate::handle::Opened;
use crate::peer::PeerState;
use crate::{ContextLost, PullError};

/// What became of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pulled {
    /// The chunk: of the positions, the model and the layout that were asked for, as long as its header says and of its hash.
    Chunk {
        /// What it is.
        header: ChunkHeader,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// It does not come.
    Refused {
        /// What was asked for.
        range: ContextRange,
        /// Why.
        refusal: ContextRefusal,
    },
}

/// The destination's end of a context's stream.
///
/// Chunks come in the order of their pulls. Dropping it closes the stream, and the holder learns of it at once. What was
/// pulled is to be taken: a holder whose chunks are not taken for 10 s gives the stream up.
#[derive(Debug)]
pub struct ContextClient {
    peer: PeerId,
    open: ContextOpen,
    pulls: mpsc::Sender<ContextRange>,
    results: mpsc::Receiver<Result<Pulled, ContextLost>>,
    under_way: usize,
    /// Why it ended, once that was told.
    lost: Option<ContextLost>,
    progress: Arc<Progress>,
}

/// How far a stream is: written by its task, read by the agent.
#[derive(Debug)]
pub(super) struct Progress {
    received_bytes: AtomicU64,
    recent: Mutex<Recent>,
}

impl Progress {
    fn new() -> Self {
        Self { received_bytes: AtomicU64::new(0), recent: Mutex::new(Recent::new(Instant::now())) }
    }

    pub(super) fn received(&self, total: u64, now: Instant) {
        self.received_bytes.store(total, Ordering::Relaxed);
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).mark(total, now);
    }
}

impl ContextClient {
    /// Asks for a context on a stream that was just opened. To be called on the agent's runtime, where its task then runs.
    pub(crate) fn begin(state: Arc<PeerState>, Opened { stream, slot }: Opened, open: ContextOpen) -> Self {
        let terms = Terms { peer: state.peer, silence_limit: SILENCE_LIMIT };
        Self::over(framed(stream), open, terms, move |rate| {
            // The stream's place among the few of its connection is given back with the task.
            let _held = &slot;
            state.set_rates(None, Some(rate));
        })
    }

    /// The same on any stream. `measured` hears how many bytes a second the link carries.
    pub(super) fn over<R, W>(
        (reader, writer): (FrameReader<R>, FrameWriter<W>),
        open: ContextOpen,
        terms: Terms,
        measured: impl FnMut(u64) + Send + 'static,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let peer = terms.peer;
        let (pulls, to_pull) = mpsc::channel(PULLS_MAX);
        let (results, to_take) = mpsc::channel(1);
        let progress = Arc::new(Progress::new());
        let mut receive = Receive::new(reader, writer, open, Arc::clone(&progress), terms);
        receive.ask(&BulkRequest::Context(open));
        tokio::spawn(receive.run(to_pull, results, measured));
        Self { peer, open, pulls, results: to_take, under_way: 0, lost: None, progress }
    }

    /// The holder.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// Which context it is.
    pub fn context(&self) -> ContextOpen {
        self.open
    }

    /// Asks for the positions from `from` up to, not including, `to`. At most [`PULLS_MAX`] may be under way.
    pub fn pull(&mut self, from: u32, to: u32) -> Result<(), PullError> {
        let range = ContextRange::checked(from, to)?;
        if self.under_way >= PULLS_MAX {
            return Err(PullError::Full);
        }
        self.pulls.try_send(range).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => PullError::Full,
            mpsc::error::TrySendError::Closed(_) => PullError::Ended,
        })?;
        self.under_way += 1;
        Ok(())
    }

    /// Pulls that have no answer yet.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// What became of the oldest pull. May be dropped half-way without losing anything. With no pull under way it waits for
    /// the stream's end.
    pub async fn next(&mut self) -> Result<Pulled, ContextLost> {
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        match self.results.recv().await.unwrap_or(Err(ContextLost::Closed)) {
            Ok(pulled) => {
                self.under_way = self.under_way.saturating_sub(1);
                Ok(pulled)
            }
            Err(lost) => {
                self.lost = Some(lost);
                Err(lost)
            }
        }
    }

    /// Bytes of chunks that have come, also of those that are not whole yet.
    pub fn received_bytes(&self) -> u64 {
        self.progress.received_bytes.load(Ordering::Relaxed)
    }

    /// What came so far tells nothing of the rate: there was no more to come.
    pub fn forget_rate(&self) {
        let mut recent = self.progress.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.begin_anew(self.received_bytes(), Instant::now());
    }

    /// Bytes a second over the last 3 s, pauses of the holder included; none before the first half second, from the stream's
    /// beginning or from [`Self::forget_rate`].
    pub fn bytes_per_s(&self) -> Option<u64> {
        let recent = self.progress.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.bytes_per_s(self.received_bytes(), Instant::now())
    }
}
