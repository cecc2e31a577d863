//! What the agent and its engine child say to each other over the pipe, in the frames of the peers' protocol.
//!
//! Both ends are the same binary, so there is one version and no negotiation.

use bincode::{Decode, Encode};
use idlewild_protocol::Message;

use crate::blob::{Blob, Parcel};
use crate::config::Limits;
use crate::handle::SequenceCommand;
use crate::job::{Beginning, SequenceId};
use crate::{Backend, EngineJob, ExportError, LoadFailure, LoadedModel, ModelFile, SequenceEvent};

/// What the child is told.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(crate) enum EngineCommand {
    /// The first command, once.
    Configure { backend: Backend, limits: Limits },
    /// Load this model in place of the loaded one. Sent when no sequence exists.
    Load(ModelFile),
    /// Give the model's memory back. Sequences that exist are dropped without an event.
    Unload,
    /// Run this, or get ready to.
    Submit { id: SequenceId, job: EngineJob, beginning: Beginning },
    /// Drop that one, without an event.
    Cancel(SequenceId),
    /// Of one sequence. Answered by `Obeyed`, whether it exists or not.
    Sequence { id: SequenceId, command: SequenceCommand },
    /// Stop all computing at once, or go on. Goes ahead of all other commands that wait.
    Halt(bool),
}

impl Parcel for EngineCommand {
    fn blob(&self) -> Option<&Blob> {
        let Self::Sequence { command: SequenceCommand::Import { bytes, .. }, .. } = self else { return None };
        Some(bytes)
    }

    fn blob_mut(&mut self) -> Option<&mut Blob> {
        let Self::Sequence { command: SequenceCommand::Import { bytes, .. }, .. } = self else { return None };
        Some(bytes)
    }
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
    /// One more `Sequence` command was obeyed, in their order.
    Obeyed,
    /// The answer to the export of this ticket.
    Exported { ticket: u64, outcome: Result<Blob, ExportError> },
}

impl Parcel for EngineEvent {
    fn blob(&self) -> Option<&Blob> {
        if let Self::Exported { outcome: Ok(blob), .. } = self { Some(blob) } else { None }
    }

    fn blob_mut(&mut self) -> Option<&mut Blob> {
        if let Self::Exported { outcome: Ok(blob), .. } = self { Some(blob) } else { None }
    }
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
    pub(crate) standbys: u16,
    pub(crate) standby_tokens: u32,
    pub(crate) kv_tokens: u32,
    pub(crate) kv_free_tokens: u32,
    pub(crate) decode_tps: f32,
    pub(crate) prefill_tps: f32,
    pub(crate) decode_doubles_at: u16,
    pub(crate) prefill_doubles_at: u16,
}

impl ChildStats {
    /// These counts with the other's rates: to tell a change that is worth a report at once.
    pub(crate) fn with_rates_of(self, other: Self) -> Self {
        Self {
            decode_tps: other.decode_tps,
            prefill_tps: other.prefill_tps,
            decode_doubles_at: other.decode_doubles_at,
            prefill_doubles_at: other.prefill_doubles_at,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{DecodeError, FinishReason, JobFailure, JobInput, ModelId, Sampling, TokenId};
    use proptest::prelude::*;

    use super::*;
    use crate::DoublesAt;
    use crate::job::Role;
    use crate::{FakeRates, KvType};

    fn commands() -> Vec<EngineCommand> {
        let limits = Limits { threads: 2, slots: 4, context_tokens: 4096, kv_tokens: 16_384, kv_type: KvType::Q8 };
        let rates = FakeRates { prefill_tps: 100.0, decode_tps: f32::INFINITY, load_ms: 3 };
        let id = SequenceId(u64::MAX);
        let input = JobInput::Tokens { prompt: vec![TokenId(1), TokenId(49_151)], generated: vec![TokenId(7)] };
        let model = ModelId([9; 32]);
        let job =
            EngineJob { model, input, sampling: Sampling::default(), max_tokens: 9, stop: vec!["\u{e9}".to_owned()] };
        let of = |command| EngineCommand::Sequence { id, command };
        vec![
            EngineCommand::Configure { backend: Backend::Llama, limits },
            EngineCommand::Configure { backend: Backend::Fake(rates), limits },
            EngineCommand::Load(ModelFile {
                path: "/m/a.gguf".into(),
                id: model,
                verify: true,
                name: "a".to_owned(),
                doubles_at: DoublesAt::default(),
            }),
            EngineCommand::Unload,
            EngineCommand::Submit { id, job: job.clone(), beginning: Role::Worker.into() },
            EngineCommand::Submit { id, job: job.clone(), beginning: Role::Successor.into() },
            EngineCommand::Submit { id, job, beginning: Beginning { role: Role::Standby, expect: Some(7) } },
            EngineCommand::Cancel(id),
            EngineCommand::Halt(true),
            of(SequenceCommand::Extend { from_index: 3, ids: vec![TokenId(300); 2] }),
            of(SequenceCommand::GetReady),
            of(SequenceCommand::TakeOver { from_index: 3 }),
            of(SequenceCommand::StopAfter { index: 3 }),
            of(SequenceCommand::GoOn),
            of(SequenceCommand::Expect { from: Some(8) }),
            of(SequenceCommand::Pause(true)),
            of(SequenceCommand::Import { from: 1, to: 2, bytes: Blob::default() }),
            of(SequenceCommand::Export { ticket: 9, from: 1, to: 2 }),
        ]
    }

    fn events() -> Vec<EngineEvent> {
        let of = |event| EngineEvent::Sequence { id: SequenceId(3), event };
        vec![
            EngineEvent::LoadFailed(LoadFailure::Refused("why".to_owned())),
            of(SequenceEvent::Accepted { prompt: vec![TokenId(5); 300] }),
            of(SequenceEvent::Prefilled { done: 1, total: 2 }),
            of(SequenceEvent::Token { index: 0, id: TokenId(70_000), text: " a".to_owned() }),
            of(SequenceEvent::Finished { reason: FinishReason::Stop, text: String::new() }),
            of(SequenceEvent::Failed(JobFailure::PromptTooLong { prompt_tokens: 9, context_tokens: 8 })),
            of(SequenceEvent::Held { tokens: 300, pulled_tokens: 8 }),
            of(SequenceEvent::ImportRefused { from: 1, to: 2, why: "why".to_owned() }),
            of(SequenceEvent::ExtendRefused { from_index: 1, why: "why".to_owned() }),
            of(SequenceEvent::TakeOverRefused { from_index: 9, known: 8 }),
            EngineEvent::Obeyed,
            EngineEvent::Exported { ticket: 1, outcome: Ok(Blob::default()) },
            EngineEvent::Exported { ticket: 1, outcome: Err(ExportError::Gone) },
            EngineEvent::Stats(ChildStats { running: 1, decode_tps: 1.5, ..ChildStats::default() }),
        ]
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for command in commands() {
            assert_eq!(EngineCommand::from_bytes(&command.to_bytes().unwrap()), Ok(command));
        }
        for event in events() {
            assert_eq!(EngineEvent::from_bytes(&event.to_bytes().unwrap()), Ok(event));
        }
    }

    #[test]
    fn a_message_that_is_cut_short_or_followed_by_more_is_refused() {
        for event in events() {
            let mut bytes = event.to_bytes().unwrap();
            for length in 0..bytes.len() {
                assert!(EngineEvent::from_bytes(&bytes[..length]).is_err(), "{event:?} cut to {length}");
            }
            bytes.push(0);
            assert_eq!(EngineEvent::from_bytes(&bytes), Err(DecodeError::Trailing(1)), "{event:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = EngineCommand::from_bytes(&bytes);
            let _ = EngineEvent::from_bytes(&bytes);
        }
    }
}
