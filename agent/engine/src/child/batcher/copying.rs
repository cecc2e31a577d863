//! What is copied between two steps: chunks in and out, and how many may wait to come in.

use std::time::Instant;

use super::Batcher;
use crate::child::sequence::Sequence;
use crate::job::SequenceId;
use crate::messages::EngineEvent;

impl Batcher {
    /// Admits what fits; copies at most one chunk, in and out by turns. Also while halted: it costs no computing.
    pub(crate) fn copy(&mut self) {
        self.admit();
        self.prove_life();
        let is_done = self.was_import && self.export_one();
        self.was_import = !is_done && self.import_one();
        if !is_done && !self.was_import {
            self.export_one();
        }
        self.tell_held();
    }

    /// Whether there was one.
    fn export_one(&mut self) -> bool {
        let answer = self.exports.answer_next(&self.placed, &mut *self.model);
        let is_answered = answer.is_some();
        self.events.extend(answer);
        is_answered
    }

    /// Standbys last: nobody waits for them. Whether there was one.
    fn import_one(&mut self) -> bool {
        let next = |is_option| move |s: &Sequence| s.role.is_option() == is_option && s.has_import();
        let at = self.placed.iter().position(next(false));
        let Some(at) = at.or_else(|| self.placed.iter().position(next(true))) else { return false };
        let id = self.placed[at].id;
        if let Some(refused) = self.placed[at].import(&mut *self.model) {
            self.emit(id, refused);
        }
        true
    }

    /// A chunk has come that begins at `from`. Where more waits now than may, those whose turn it is are imported at once. If
    /// it is nobody's turn, since ids before them have to be evaluated first, the latest is dropped without a word, and the
    /// sequence evaluates its ids: it expects only what is still to come.
    pub(super) fn bound_chunks(&mut self, id: SequenceId, from: u32) {
        while self.waiting_bytes() > self.waiting_bytes_max {
            if self.import_one() {
                continue;
            }
            tracing::debug!(sequence = id.0, from, "no room for a chunk; its ids are evaluated");
            if let Some(sequence) = self.placed.iter_mut().find(|sequence| sequence.id == id) {
                sequence.chunks.take(from);
            }
            return;
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.placed.iter().map(|sequence| sequence.chunks.bytes()).sum()
    }

    pub(super) fn tell_held(&mut self) {
        let now = Instant::now();
        let model = &*self.model;
        let told = self.placed.iter_mut().filter_map(|sequence| {
            let event = sequence.poll_held(now, model)?;
            Some(EngineEvent::Sequence { id: sequence.id, event })
        });
        self.events.extend(told);
    }
}
