//! What can be asked of one sequence while it exists.

use std::sync::Arc;

use bincode::{Decode, Encode};
use idlewild_protocol::{MAX_CHUNK_BYTES, MAX_CHUNK_TOKENS, TokenId};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::blob::Blob;
use crate::job::SequenceId;

/// Part of a sequence's KV cache: what one engine exports and another one of the same layout imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvChunk {
    /// The first position, counted from the beginning of the prompt.
    pub from: u32,
    /// One after the last; at most [`MAX_CHUNK_TOKENS`] more than `from`.
    pub to: u32,
    /// Their KV cache: 1 to [`MAX_CHUNK_BYTES`] bytes. The engine checks every one of them.
    pub bytes: Vec<u8>,
}

/// A command did not reach the sequence. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// As many commands wait as may; the same again a moment later may do.
    #[error("too many commands wait for the engine")]
    Busy,
    /// The engine is gone.
    #[error("the engine was stopped")]
    Gone,
    /// A chunk's range or size is not one that a chunk may have.
    #[error("a chunk has 1 to {MAX_CHUNK_TOKENS} positions and 1 to {MAX_CHUNK_BYTES} bytes")]
    BadChunk,
}

/// Why a part of a KV cache was not exported. The sequence goes on as if nothing had been asked.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
pub enum ExportError {
    /// The sequence does not hold all of these positions (yet).
    #[error("the sequence does not hold these positions")]
    NotHeld,
    /// As many exports wait as may; the same again a moment later may do.
    #[error("too many exports wait")]
    Busy,
    /// The sequence has ended, or the engine has.
    #[error("the sequence is gone")]
    Gone,
    /// No chunk may have so many positions, or none, or so many bytes.
    #[error("no chunk may be as large")]
    BadRange,
    /// The model cannot, now or ever.
    #[error("the model does not export: {0}")]
    Refused(String),
}

/// What a sequence is told, as it goes over the pipe.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(crate) enum SequenceCommand {
    Extend { from_index: u32, ids: Vec<TokenId> },
    GetReady,
    TakeOver { from_index: u32 },
    StopAfter { index: u32 },
    GoOn,
    Expect { from: Option<u32> },
    Pause(bool),
    Import { from: u32, to: u32, bytes: Blob },
    Export { ticket: u64, from: u32, to: u32 },
}

/// A command on its way to the supervisor.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: SequenceId,
    pub(crate) what: Asked,
}

#[derive(Debug)]
pub(crate) enum Asked {
    Command(SequenceCommand),
    /// With its place among the chunks in flight, which it keeps until the child has it.
    Import(KvChunk, OwnedSemaphorePermit),
    Export {
        from: u32,
        to: u32,
        reply: oneshot::Sender<Result<Vec<u8>, ExportError>>,
    },
}

/// Commands to one sequence, from wherever in the agent, while its stream is read elsewhere. Commands of one handle are
/// obeyed in the order in which they were given. To a sequence that has ended they mean nothing, and nothing comes of
/// them. What a sequence cannot obey it says in its stream.
///
/// Invariant: a handle keeps neither the sequence nor the engine alive.
#[derive(Debug, Clone)]
pub struct SequenceHandle {
    pub(crate) id: SequenceId,
    pub(crate) told: mpsc::Sender<Told>,
    pub(crate) chunks: Arc<Semaphore>,
}

impl SequenceHandle {
    /// To one that does not draw yet: more ids of the answer, the first at `from_index`. What it knows is passed over;
    /// a gap, another id than the known one, or more than it has room for gives `SequenceEvent::ExtendRefused`.
    pub fn extend(&self, from_index: u32, ids: Vec<TokenId>) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::Extend { from_index, ids })
    }

    /// To a standby: from here on it is a successor, as [`crate::Engine::get_ready`] makes one. What `pause` and
    /// `stop_after` said to the standby is forgotten; what `expect` said is not.
    pub fn get_ready(&self) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::GetReady)
    }

    /// To a standby or a successor: from here on it is a sequence like any other, and the next token is that of
    /// `from_index`. What it does not hold yet it evaluates first; chunks that do not follow at once on what it holds are
    /// dropped, and so is what `expect` and `pause` said, and what `stop_after` said to a standby. Ids after `from_index`
    /// are forgotten; if one before it is unknown, it draws nothing and says `SequenceEvent::TakeOverRefused`.
    pub fn take_over(&self, from_index: u32) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::TakeOver { from_index })
    }

    /// The token of `index` is the last that is drawn; then the sequence keeps slot and KV cache, and computes nothing.
    /// One that is further already stops where it is.
    pub fn stop_after(&self, index: u32) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::StopAfter { index })
    }

    /// Withdraws `stop_after`.
    pub fn go_on(&self) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::GoOn)
    }

    /// The positions from `from` on will be imported, so they are not evaluated. None: whatever is neither held nor
    /// buffered is evaluated. A refused import means none, too.
    pub fn expect(&self, from: Option<u32>) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::Expect { from })
    }

    /// While paused, the sequence computes nothing and keeps what it has; it still exports and imports.
    pub fn pause(&self, paused: bool) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::Pause(paused))
    }

    /// Hands in a chunk; waits while as many are on their way to the child as may be. A chunk waits in the sequence
    /// until all before it is held. One that overlaps what is held is dropped; one that cannot be used gives
    /// `SequenceEvent::ImportRefused`. A sequence that has no slot yet (before `SequenceEvent::Accepted`, for one that does
    /// not draw yet) refuses all.
    pub async fn import(&self, chunk: KvChunk) -> Result<(), SequenceError> {
        let is_sized = u32::try_from(chunk.bytes.len()).is_ok_and(|bytes| (1..=MAX_CHUNK_BYTES).contains(&bytes));
        if !is_sized || !is_chunk(chunk.from, chunk.to) {
            return Err(SequenceError::BadChunk);
        }
        let permit = Arc::clone(&self.chunks).acquire_owned().await.map_err(|_| SequenceError::Gone)?;
        let told = Told { id: self.id, what: Asked::Import(chunk, permit) };
        self.told.send(told).await.map_err(|_| SequenceError::Gone)
    }

    /// The KV cache of the positions from `from` up to, not including, `to`, which the sequence must hold. Also of one
    /// that is paused or parked, and of an engine that is halted.
    pub async fn export(&self, from: u32, to: u32) -> Result<Vec<u8>, ExportError> {
        if !is_chunk(from, to) {
            return Err(ExportError::BadRange);
        }
        let (reply, answer) = oneshot::channel();
        self.told.try_send(Told { id: self.id, what: Asked::Export { from, to, reply } }).map_err(
            |error| match error {
                TrySendError::Full(_) => ExportError::Busy,
                TrySendError::Closed(_) => ExportError::Gone,
            },
        )?;
        answer.await.unwrap_or(Err(ExportError::Gone))
    }

    fn tell(&self, command: SequenceCommand) -> Result<(), SequenceError> {
        let told = Told { id: self.id, what: Asked::Command(command) };
        self.told.try_send(told).map_err(|error| match error {
            TrySendError::Full(_) => SequenceError::Busy,
            TrySendError::Closed(_) => SequenceError::Gone,
        })
    }
}

/// Whether these are positions that a chunk may have.
pub(crate) fn is_chunk(from: u32, to: u32) -> bool {
    to.checked_sub(from).is_some_and(|count| (1..=MAX_CHUNK_TOKENS).contains(&count))
}
