//! What can be asked of one sequence while it exists.

use std::sync::{Arc, Mutex, PoisonError};

use bincode::{Decode, Encode};
use idlewild_protocol::{MAX_CHUNK_BYTES, MAX_CHUNK_TOKENS, TokenId};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::blob::Blob;
use crate::job::SequenceId;

/// Bytes of chunks that may wait in an engine until what is before them is held, of all sequences together: memory that it
/// takes besides its KV cache. A link that is worth pulling over brings three quarters of a context before it is reached from the
/// front; of 2,000 tokens of an 8B model (128 kB each) that is 192 MB.
pub const WAITING_CHUNKS_BYTES_MAX: u64 = 256 * 1024 * 1024;

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
    /// As many commands to this sequence wait as may; the same again a moment later may do.
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

/// Words to one sequence that may wait for the supervisor: what an origin says while a slow machine takes a step of seconds.
/// Each sequence has so many of its own, so that whoever says too much fills no place of another's.
pub(crate) const SHARE_MAX: u32 = 128;

/// Ids that take one more place of a share: what waits is bounded in bytes as well.
const IDS_PER_PLACE: u32 = 512;

/// A command on its way to the supervisor.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: SequenceId,
    pub(crate) what: Asked,
    /// Its places in the sequence's share, until it is passed on; none where its number is bounded otherwise.
    pub(crate) places: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
pub(crate) enum Asked {
    Command(SequenceCommand),
    /// Whatever is to be expected when it is passed on.
    Expect(Arc<Expected>),
    /// With its place among the chunks in flight, which it keeps until the child has it.
    Import(KvChunk, OwnedSemaphorePermit),
    Export {
        from: u32,
        to: u32,
        reply: oneshot::Sender<Result<Vec<u8>, ExportError>>,
    },
}

/// What a sequence is to expect. The last word counts, and finds its place however much else waits: a sequence that was not
/// told to expect nothing would wait for ever. It overtakes what waits, but no chunk: a sequence that is to expect less before
/// it has a chunk would make that itself.
#[derive(Debug, Default)]
pub(crate) struct Expectation(Mutex<Option<Arc<Expected>>>);

/// A word on its way to the supervisor. Until that takes it, it may be changed.
#[derive(Debug)]
pub(crate) struct Expected(Mutex<Word>);

#[derive(Debug)]
struct Word {
    from: Option<u32>,
    is_taken: bool,
}

impl Expectation {
    /// Changes the word that is on its way; gives a new one, to be sent, where there is none.
    fn replace(&self, from: Option<u32>) -> Option<Arc<Expected>> {
        let mut on_its_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if on_its_way.as_ref().is_some_and(|expected| expected.change(from)) {
            return None;
        }
        let expected = Arc::new(Expected(Mutex::new(Word { from, is_taken: false })));
        *on_its_way = Some(Arc::clone(&expected));
        Some(expected)
    }

    /// What is on its way stays as it is, or could not be sent: the next word is a new one.
    fn seal(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Expected {
    /// Whether it was not too late.
    fn change(&self, from: Option<u32>) -> bool {
        let mut word = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !word.is_taken {
            word.from = from;
        }
        !word.is_taken
    }

    /// What is to be expected now: what is said later is sent anew.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut word = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        word.is_taken = true;
        word.from
    }
}

/// Commands to one sequence, from wherever in the agent, while its stream is read elsewhere. Commands of one handle are
/// obeyed in the order in which they were given, but for `expect`, of which the last word since the last chunk counts as soon as
/// it can. To a sequence that has ended they mean nothing, and nothing comes of them. What a sequence cannot obey it says in its
/// stream.
///
/// Invariant: a handle keeps neither the sequence nor the engine alive.
#[derive(Debug, Clone)]
pub struct SequenceHandle {
    pub(crate) id: SequenceId,
    pub(crate) told: mpsc::Sender<Told>,
    pub(crate) chunks: Arc<Semaphore>,
    /// Places for this sequence's words, [`SHARE_MAX`] in all.
    pub(crate) share: Arc<Semaphore>,
    pub(crate) expectation: Arc<Expectation>,
}

impl SequenceHandle {
    /// To one that does not draw yet: more ids of the answer, the first at `from_index`. What it knows is passed over;
    /// a gap, another id than the known one, or more than it has room for gives `SequenceEvent::ExtendRefused`.
    pub fn extend(&self, from_index: u32, ids: Vec<TokenId>) -> Result<(), SequenceError> {
        let places = 1 + u32::try_from(ids.len()).unwrap_or(u32::MAX) / IDS_PER_PLACE;
        self.tell_large(SequenceCommand::Extend { from_index, ids }, places.min(SHARE_MAX))
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
    /// buffered is evaluated. A refused import means none, too. Never too much for the sequence: of what still waits to be
    /// passed on, this replaces the last.
    pub fn expect(&self, from: Option<u32>) -> Result<(), SequenceError> {
        let Some(expected) = self.expectation.replace(from) else { return Ok(()) };
        let told = Told { id: self.id, what: Asked::Expect(expected), places: None };
        self.told.try_send(told).map_err(|error| {
            self.expectation.seal();
            refusal_of(&error)
        })
    }

    /// While paused, the sequence computes nothing and keeps what it has; it still exports and imports.
    pub fn pause(&self, paused: bool) -> Result<(), SequenceError> {
        self.tell(SequenceCommand::Pause(paused))
    }

    /// Hands in a chunk; waits while as many are on their way to the child as may be. A chunk waits in the sequence
    /// until all before it is held. One that overlaps what is held is dropped, and so is one behind a gap while
    /// [`WAITING_CHUNKS_BYTES_MAX`] wait already; one that cannot be used gives `SequenceEvent::ImportRefused`. A sequence that has no slot yet (before `SequenceEvent::Accepted`, for one that does
    /// not draw yet) refuses all.
    pub async fn import(&self, chunk: KvChunk) -> Result<(), SequenceError> {
        let is_sized = u32::try_from(chunk.bytes.len()).is_ok_and(|bytes| (1..=MAX_CHUNK_BYTES).contains(&bytes));
        if !is_sized || !is_chunk(chunk.from, chunk.to) {
            return Err(SequenceError::BadChunk);
        }
        let permit = Arc::clone(&self.chunks).acquire_owned().await.map_err(|_| SequenceError::Gone)?;
        self.expectation.seal();
        let told = Told { id: self.id, what: Asked::Import(chunk, permit), places: None };
        self.told.send(told).await.map_err(|_| SequenceError::Gone)
    }

    /// The KV cache of the positions from `from` up to, not including, `to`, which the sequence must hold. Also of one
    /// that is paused or parked, and of an engine that is halted.
    pub async fn export(&self, from: u32, to: u32) -> Result<Vec<u8>, ExportError> {
        if !is_chunk(from, to) {
            return Err(ExportError::BadRange);
        }
        let (reply, answer) = oneshot::channel();
        self.send(Asked::Export { from, to, reply }, 1).map_err(|error| match error {
            SequenceError::Gone => ExportError::Gone,
            SequenceError::Busy | SequenceError::BadChunk => ExportError::Busy,
        })?;
        answer.await.unwrap_or(Err(ExportError::Gone))
    }

    fn tell(&self, command: SequenceCommand) -> Result<(), SequenceError> {
        self.tell_large(command, 1)
    }

    fn tell_large(&self, command: SequenceCommand, places: u32) -> Result<(), SequenceError> {
        self.send(Asked::Command(command), places)
    }

    fn send(&self, what: Asked, places: u32) -> Result<(), SequenceError> {
        if self.told.is_closed() {
            return Err(SequenceError::Gone);
        }
        // Never closed: whoever finds no place has said too much.
        let places = Arc::clone(&self.share).try_acquire_many_owned(places).map_err(|_full| SequenceError::Busy)?;
        let told = Told { id: self.id, what, places: Some(places) };
        self.told.try_send(told).map_err(|error| refusal_of(&error))
    }
}

fn refusal_of(error: &TrySendError<Told>) -> SequenceError {
    match error {
        TrySendError::Full(_) => SequenceError::Busy,
        TrySendError::Closed(_) => SequenceError::Gone,
    }
}

/// Whether these are positions that a chunk may have.
pub(crate) fn is_chunk(from: u32, to: u32) -> bool {
    to.checked_sub(from).is_some_and(|count| (1..=MAX_CHUNK_TOKENS).contains(&count))
}
