//! What the agent and its engine child say to each other over the pipe, in the frames of the peers' protocol.
//!
//! Both ends are the same binary, so there is one version and no negotiation.

use bincode::{Decode, Encode};
use idlewild_protocol::Message;

use crate::config::Limits;
use crate::job::SequenceId;
use crate::{Backend, EngineJob, LoadFailure, LoadedModel, ModelFile, SequenceEvent};

/// What the child is told.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(crate) enum EngineCommand {
    /// The first command, once.
    Configure { backend: Backend, limits: Limits },
    /// Load this model in place of the loaded one. Sent when no sequence exists.
    Load(ModelFile),
    /// Give the model's memory back. Sequences that exist are dropped without an event.
    Unload,
    /// Run this.
    Submit { id: SequenceId, job: EngineJob },
    /// Drop that one, without an event.
    Cancel(SequenceId),
}

impl Message for EngineCommand {
    /// A job from a peer is at most 2 MiB; the text of a prompt dominates.
    const MAX_BYTES: usize = 3 * 1024 * 1024;
}

/// What the child says.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(crate) enum EngineEvent {
    /// The answer to `Load`.
    Loaded(LoadedModel),
    /// The answer to `Load`; no model is loaded now.
    LoadFailed(LoadFailure),
    /// Of one sequence.
    Sequence { id: SequenceId, event: SequenceEvent },
    /// On every change of the counts, and once a second while it works.
    Stats(ChildStats),
}

impl Message for EngineEvent {
    /// The ids of a prompt dominate: five bytes each at most, for a context of half a million tokens.
    const MAX_BYTES: usize = 3 * 1024 * 1024;
}

/// The child's part of [`crate::EngineStats`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Encode, Decode)]
pub(crate) struct ChildStats {
    pub(crate) running: u16,
    pub(crate) waiting: u16,
    pub(crate) kv_tokens: u32,
    pub(crate) kv_free_tokens: u32,
    pub(crate) decode_tps: f32,
    pub(crate) prefill_tps: f32,
}

impl ChildStats {
    /// These counts with the other's rates: to tell a change that is worth a report at once.
    pub(crate) fn with_rates_of(self, other: Self) -> Self {
        Self { decode_tps: other.decode_tps, prefill_tps: other.prefill_tps, ..self }
    }
}
