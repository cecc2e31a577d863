//! A job for the engine, and the stream of what comes of it.

use bincode::{Decode, Encode};
use idlewild_protocol::{FinishReason, JobFailure, JobInput, ModelId, Sampling, TokenId};
use tokio::sync::mpsc;

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
/// `Failed` may come at any time and is the last.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum SequenceEvent {
    /// It fits and has its place, perhaps in the queue.
    Accepted {
        /// The prompt by the model's tokenizer and template; for `JobInput::Tokens` the ids that were sent.
        prompt: Vec<TokenId>,
    },
    /// The context (prompt and ids generated elsewhere) is being read. Repeated once a second while the sequence waits
    /// for its turn, as proof of life; while it waits for the model to be loaded, before `Accepted`, with a total of 0.
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
    /// It cannot go on.
    Failed(JobFailure),
}

impl SequenceEvent {
    /// Whether nothing follows it.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Finished { .. } | Self::Failed(_) => true,
            Self::Accepted { .. } | Self::Prefilled { .. } | Self::Token { .. } => false,
        }
    }
}

/// The number of a sequence in one child's life, given by the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub(crate) struct SequenceId(pub(crate) u64);

/// What comes of one job. Dropping it cancels the job within one step.
#[derive(Debug)]
pub struct EngineStream {
    pub(crate) id: SequenceId,
    pub(crate) events: mpsc::Receiver<SequenceEvent>,
    /// A place in the queue of cancellations, kept from the start so that a drop never finds the queue full.
    pub(crate) cancel: Option<mpsc::OwnedPermit<SequenceId>>,
    pub(crate) over: bool,
}

impl EngineStream {
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
            permit.send(self.id);
        }
    }
}
