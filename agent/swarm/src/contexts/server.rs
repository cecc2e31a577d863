//! The holder's end of a context's stream.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use futures::{AsyncRead, AsyncWrite};
use idlewild_protocol::{ChunkHeader, ContextOpen, ContextRefusal, ContextReply, MAX_CHUNK_BYTES, PeerId};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::transmit::{Answer, Transmit};
use super::{CLOSE_LIMIT, ContextRange, PULLS_MAX, SILENCE_LIMIT, Terms};
use crate::frames::{FrameReader, FrameWriter, StreamReader, StreamWriter, close_behind};
use crate::peer::PeerState;
use crate::{AnswerError, ContextLost};

/// Contexts that one peer may pull at once.
pub(crate) const MAX_PER_PEER: usize = 4;

/// Contexts that all peers together may pull at once: two chunks of 8 MiB each, and what the connection has of them.
pub(crate) const MAX_SENT: usize = 16;

/// Chunks from this size on are hashed on a thread that may be busy for a while: it takes a millisecond a megabyte.
const LARGE: usize = 128 * 1024;

/// The holder's end of a context's stream.
///
/// Answers go to pulls in their order. Dropping it ends the stream after what was answered.
#[derive(Debug)]
pub struct ContextServer {
    peer: PeerId,
    open: ContextOpen,
    pulls: mpsc::Receiver<ContextRange>,
    answers: mpsc::Sender<Answer>,
    /// Pulls that `next` gave and that have no answer.
    unanswered: VecDeque<ContextRange>,
    lost: Arc<OnceLock<ContextLost>>,
}

/// The two permits of a context that is being sent: of its peer's, and of all peers'.
type Turns = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Takes a stream on which a peer has asked for a context.
pub(crate) fn accept(
    ends: (StreamReader, StreamWriter),
    open: ContextOpen,
    runtime: &Handle,
    state: &Arc<PeerState>,
    turns: Turns,
) -> ContextServer {
    let terms = Terms { peer: state.peer, silence_limit: SILENCE_LIMIT };
    let (round_trip, state) = (state.round_trip(), Arc::clone(state));
    ContextServer::over(ends, open, runtime, (round_trip, terms), move |rate| {
        // Given back with the task.
        let _held = &turns;
        state.set_rates(Some(rate), None);
    })
}

/// Says to a peer that has asked for a context that too many are being sent.
pub(crate) async fn turn_away(mut writer: StreamWriter, runtime: &Handle) {
    // A peer that does not even take this learns of it by the end of its stream.
    drop(timeout(CLOSE_LIMIT, writer.send(&ContextReply::Refused(ContextRefusal::Busy))).await);
    close_behind(runtime, writer, CLOSE_LIMIT, ());
}

impl ContextServer {
    /// On any stream, with its task on `runtime`, which only moves bytes. `measured` hears how many bytes a second the link
    /// carries.
    pub(super) fn over<R, W>(
        (reader, writer): (FrameReader<R>, FrameWriter<W>),
        open: ContextOpen,
        runtime: &Handle,
        (round_trip, terms): (Option<Duration>, Terms),
        measured: impl FnMut(u64) + Send + 'static,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let peer = terms.peer;
        let (to_answer, pulls) = mpsc::channel(PULLS_MAX);
        let (answers, to_send) = mpsc::channel(1);
        let lost = Arc::new(OnceLock::new());
        let told = Arc::clone(&lost);
        let transmit = Transmit::new(reader, writer, round_trip, terms);
        runtime.spawn(async move { transmit.run(to_answer, to_send, &told, measured).await });
        Self { peer, open, pulls, answers, unanswered: VecDeque::new(), lost }
    }

    /// The destination.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// Which context it wants. Its model and layout are those of every chunk that is sent: another layout is to be refused.
    pub fn context(&self) -> ContextOpen {
        self.open
    }

    /// What the destination wants next; several may be taken before the first is answered. May be dropped half-way.
    pub async fn next(&mut self) -> Result<ContextRange, ContextLost> {
        let range = self.pulls.recv().await.ok_or_else(|| self.why())?;
        self.unanswered.push_back(range);
        Ok(range)
    }

    /// Answers the oldest pull with its chunk. Returns when there is room for the next one; dropped before that, the pull
    /// may be answered still.
    pub async fn send(&mut self, bytes: Vec<u8>) -> Result<(), AnswerError> {
        let &range = self.unanswered.front().ok_or(AnswerError::NotPulled)?;
        let length = u32::try_from(bytes.len()).ok().filter(|length| (1..=MAX_CHUNK_BYTES).contains(length));
        let length = length.ok_or(AnswerError::BadSize)?;
        let (hash, bytes) = hashed(bytes).await.ok_or(AnswerError::Lost(ContextLost::Closed))?;
        let ContextOpen { model, layout, .. } = self.open;
        let header = ChunkHeader { model, layout, from: range.from, to: range.to, bytes: length, hash };
        self.answer(Answer { reply: ContextReply::Chunk(header), body: bytes }).await
    }

    /// Answers the oldest pull with a refusal.
    pub async fn refuse(&mut self, refusal: ContextRefusal) -> Result<(), AnswerError> {
        self.answer(Answer { reply: ContextReply::Refused(refusal), body: Vec::new() }).await
    }

    /// Refuses the context as a whole, whatever was pulled or not, and ends the stream. The destination hears the reason
    /// as the answer to its oldest pull, or without one: it does not come again for what it cannot have.
    pub async fn refuse_all(self, refusal: ContextRefusal) -> Result<(), AnswerError> {
        let permit = self.answers.reserve().await.map_err(|_ended| AnswerError::Lost(self.why()))?;
        permit.send(Answer { reply: ContextReply::Refused(refusal), body: Vec::new() });
        Ok(())
    }

    async fn answer(&mut self, answer: Answer) -> Result<(), AnswerError> {
        if self.unanswered.is_empty() {
            return Err(AnswerError::NotPulled);
        }
        let permit = self.answers.reserve().await.map_err(|_ended| AnswerError::Lost(self.why()))?;
        permit.send(answer);
        self.unanswered.pop_front();
        Ok(())
    }

    fn why(&self) -> ContextLost {
        self.lost.get().copied().unwrap_or(ContextLost::Closed)
    }
}

/// None if the runtime is ending.
async fn hashed(bytes: Vec<u8>) -> Option<([u8; 32], Vec<u8>)> {
    let hash = |bytes: &[u8]| *blake3::hash(bytes).as_bytes();
    if bytes.len() < LARGE {
        return Some((hash(&bytes), bytes));
    }
    spawn_blocking(move || (hash(&bytes), bytes)).await.ok()
}
