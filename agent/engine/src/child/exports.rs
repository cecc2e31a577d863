//! Exports that were asked for, answered one between two steps: those who decode wait for one chunk at most.

use std::collections::VecDeque;

use super::model::{KvError, Model};
use super::sequence::Sequence;
use crate::ExportError;
use crate::blob::Blob;
use crate::handle::is_chunk;
use crate::job::SequenceId;
use crate::messages::EngineEvent;

/// Exports of all sequences that may wait.
pub(crate) const WAITING_MAX: usize = 16;

/// One that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Export {
    pub(crate) ticket: u64,
    pub(crate) id: SequenceId,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Exports {
    waiting: VecDeque<Export>,
}

impl Exports {
    /// Lets one wait, or answers at once.
    pub(crate) fn add(&mut self, export: Export) -> Option<EngineEvent> {
        if self.waiting.len() >= WAITING_MAX {
            return Some(EngineEvent::Exported { ticket: export.ticket, outcome: Err(ExportError::Busy) });
        }
        self.waiting.push_back(export);
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Answers the one that has waited longest.
    pub(crate) fn answer_next(&mut self, sequences: &[Sequence], model: &mut dyn Model) -> Option<EngineEvent> {
        let export = self.waiting.pop_front()?;
        let sequence = sequences.iter().find(|sequence| sequence.id == export.id);
        let outcome = sequence.map_or(Err(ExportError::Gone), |sequence| read(sequence, export, model));
        Some(EngineEvent::Exported { ticket: export.ticket, outcome })
    }
}

fn read(sequence: &Sequence, export: Export, model: &mut dyn Model) -> Result<Blob, ExportError> {
    let Export { from, to, .. } = export;
    if !is_chunk(from, to) {
        return Err(ExportError::BadRange);
    }
    let slot = sequence.slot.filter(|_| to <= sequence.held()).ok_or(ExportError::NotHeld)?;
    let bytes = model.export(slot, from, to).map_err(|error| match error {
        KvError::OtherPositions => ExportError::NotHeld,
        KvError::Unsupported | KvError::Malformed(_) | KvError::Refused(_) => ExportError::Refused(error.to_string()),
    })?;
    Blob::new(bytes).ok_or(ExportError::BadRange)
}
