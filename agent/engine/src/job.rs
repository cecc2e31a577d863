//! A job for the engine, and the stream of what comes of it.

use bincode::{Decode, Encode};
use idlewild_protocol::{FinishReason, JobFailure, JobInput, ModelId, Sampling, TokenId};
use tokio::sync::mpsc;

use crate::SequenceHandle;

/// One generation.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct EngineJob {
    /// The model that it is for: refused with `EngineError::OtherModel` where another is loaded.
    pub model: ModelId,
    /// What to answer.
    pub input: JobInput,
    /// How to draw tokens.
    pub sampling: Sampling,
    /// Most tokens of output, those that exist already included.
    pub max_tokens: u32,
    /// Texts that end the answer. They are not part of it.
    pub stop: Vec<String>,
}

/// What comes of a job, in this order: `Accepted`, any number of `Prefilled`, `Token`s with rising index, one `Finished`.
/// `Failed` may come at any time and is the last; so may what was refused, and is not.
///
/// Of a standby or a successor, until it takes over: `Held` as proof of life while it waits for a slot (`Prefilled` for the
/// model to be loaded), `Accepted` when it has one, then `Held` whenever that has grown.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum SequenceEvent {
    /// It fits and has its place, perhaps in the queue.
    Accepted {
        /// The prompt by the model's tokenizer and template; for `JobInput::Tokens` the ids that were sent.
        prompt: Vec<TokenId>,
    },
    /// The context (prompt and ids generated elsewhere) is being read. Repeated once a second while the sequence waits
    /// for a slot, or behind older prompts, as proof of life; while it waits for the model to be loaded, before `Accepted`,
    /// with a total of 0.
    Prefilled {
        /// Tokens read.
        done: u32,
        /// Tokens to read.
        total: u32,
    },
    /// One more token.
    Token {
        /// Its place in the output, from 0.
        index: u32,
        /// Its id.
        id: TokenId,
        /// What it adds to the answer's text: whole characters, perhaps none yet.
        text: String,
    },
    /// The answer is complete.
    Finished {
        /// Why.
        reason: FinishReason,
        /// Text that was held back in case it began a stop text, or an unfinished character.
        text: String,
    },
    /// It cannot go on. A standby that made room for another job fails with `JobFailure::Busy`.
    Failed(JobFailure),
    /// It holds so many of the ids that it was sent, prompt included. The last one of them counts as held, since
    /// the first step after a take-over evaluates it anyway: so one that has caught up holds them all. Told once in 16
    /// tokens or 100 ms as it grows, and at once when it has caught up; again once a second while it waits behind others.
    Held {
        /// Tokens; 0 while it waits for a slot.
        tokens: u32,
        /// Of those, the ones that were imported.
        pulled_tokens: u32,
    },
    /// A chunk was not taken. Where the model refused it, the others that waited are dropped too, `expect` is withdrawn, and
    /// the ids are evaluated instead.
    ImportRefused {
        /// Its first position.
        from: u32,
        /// One after its last.
        to: u32,
        /// Why.
        why: String,
    },
    /// Ids were not taken, none of them.
    ExtendRefused {
        /// Of the first one.
        from_index: u32,
        /// Why.
        why: String,
    },
    /// It is not the worker, since an id is missing.
    TakeOverRefused {
        /// What it was to draw first.
        from_index: u32,
        /// Ids of the answer that it knows.
        known: u32,
    },
}

impl SequenceEvent {
    /// Whether nothing follows it.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Finished { .. } | Self::Failed(_) => true,
            Self::Accepted { .. }
            | Self::Prefilled { .. }
            | Self::Token { .. }
            | Self::Held { .. }
            | Self::ImportRefused { .. }
            | Self::ExtendRefused { .. }
            | Self::TakeOverRefused { .. } => false,
        }
    }

    /// Whether it only answers a command that should not have been given.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::ImportRefused { .. } | Self::ExtendRefused { .. } | Self::TakeOverRefused { .. } => true,
            Self::Accepted { .. }
            | Self::Prefilled { .. }
            | Self::Token { .. }
            | Self::Held { .. }
            | Self::Finished { .. }
            | Self::Failed(_) => false,
        }
    }
}

/// What a sequence is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Role {
    /// It draws tokens.
    Worker,
    /// It gets ready to draw, and somebody waits for that: it has all that a worker has.
    Successor,
    /// It gets ready for the case, and draws none: it makes room for the others.
    Standby,
}

impl Role {
    /// Whether nobody waits for it.
    pub(crate) fn is_option(self) -> bool {
        self == Self::Standby
    }
}

/// As what a sequence begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Beginning {
    pub(crate) role: Role,
    /// Of one that does not draw yet: the first position that it is not to evaluate, since chunks of it will come.
    pub(crate) expect: Option<u32>,
}

impl From<Role> for Beginning {
    fn from(role: Role) -> Self {
        Self { role, expect: None }
    }
}

/// The number of a sequence in one child's life, given by the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub(crate) struct SequenceId(pub(crate) u64);

/// What comes of one job. Dropping it cancels the job within one step.
#[derive(Debug)]
pub struct EngineStream {
    pub(crate) handle: SequenceHandle,
    pub(crate) events: mpsc::Receiver<SequenceEvent>,
    /// A place in the queue of cancellations, kept from the start so that a drop never finds the queue full.
    pub(crate) cancel: Option<mpsc::OwnedPermit<SequenceId>>,
    pub(crate) over: bool,
}

impl EngineStream {
    /// What the sequence can be told while another task waits for its events.
    pub fn handle(&self) -> SequenceHandle {
        self.handle.clone()
    }

    /// The next event; none after the last one.
    pub async fn next(&mut self) -> Option<SequenceEvent> {
        if self.over {
            return None;
        }
        let event = self.events.recv().await;
        self.over = event.as_ref().is_none_or(SequenceEvent::is_last);
        event
    }
}

impl Drop for EngineStream {
    fn drop(&mut self) {
        if let Some(permit) = self.cancel.take()
            && !self.over
        {
            permit.send(self.handle.id);
        }
    }
}
