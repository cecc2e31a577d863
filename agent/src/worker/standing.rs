//! What a job's sequence is here for, and what it was sent.

use idlewild_engine::SequenceError;
use idlewild_protocol::{JobFailure, JobInput};

use super::job::End;

/// What a sequence that takes over makes in a moment.
pub(super) const SHORT_TOKENS: u32 = 64;

/// The lag of a sequence that has only the last token to evaluate, from which the next one is drawn. Each further one lengthens
/// that step by more than its KV takes over a home's network (by 30 ms on a context of 4,000).
pub(super) const LAST_TOKENS: u32 = 0;

/// Ids that the origin sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) prompt: u32,
    pub(super) generated: u32,
}

impl Sent {
    /// All ids.
    pub(super) fn all(self) -> u32 {
        self.prompt.saturating_add(self.generated)
    }
}

/// How many ids a job begins with; none where the worker is to make them.
pub(super) fn ids_of(input: &JobInput) -> Sent {
    let count = |ids: &[_]| u32::try_from(ids.len()).unwrap_or(u32::MAX);
    match input {
        JobInput::Tokens { prompt, generated } => Sent { prompt: count(prompt), generated: count(generated) },
        JobInput::Chat { .. } | JobInput::Text { .. } => Sent { prompt: 0, generated: 0 },
    }
}

/// What the sequence is here for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It draws tokens.
    Works,
    /// It is the worker already, and draws as soon as it holds the context.
    GetsReady {
        /// The first token that it draws.
        from_index: u32,
    },
    /// It holds the context for the case.
    StandsBy,
}

/// A queue of the engine's that is full for a moment is no failure of this engine, but there is no room here.
pub(super) fn told(said: Result<(), SequenceError>) -> Result<(), End> {
    said.map_err(|error| match error {
        SequenceError::Busy => End::Failed(JobFailure::Busy),
        SequenceError::Gone | SequenceError::BadChunk => End::Failed(JobFailure::Engine(error.to_string())),
    })
}
