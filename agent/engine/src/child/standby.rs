//! What a sequence does when it is told something: ids and chunks come in, it stops, goes on, takes over.

use std::time::{Duration, Instant};

use idlewild_protocol::{MAX_CHUNK_BYTES, TokenId};

use super::chunks::{Added, Chunk, Room};
use super::model::Model;
use super::prepare::completion;
use super::sequence::Sequence;
use crate::SequenceEvent;
use crate::handle::{SequenceCommand, is_chunk};
use crate::job::Role;

/// `Held` is told after so many more tokens,
const HELD_TOKENS: usize = 16;

/// or so much later, whichever is first. Between them the origin's picture is older than a step.
const HELD_EVERY: Duration = Duration::from_millis(100);

impl Sequence {
    /// Obeys; what cannot be obeyed is answered. The last event may be the sequence's last.
    pub(crate) fn obey(
        &mut self,
        command: SequenceCommand,
        model: &mut dyn Model,
        kv_bytes_per_token: u32,
    ) -> Option<SequenceEvent> {
        match command {
            SequenceCommand::Extend { from_index, ids } => {
                let why = self.extend(from_index as usize, &ids, model).err()?;
                Some(SequenceEvent::ExtendRefused { from_index, why })
            }
            SequenceCommand::GetReady => {
                self.get_ready();
                None
            }
            SequenceCommand::TakeOver { from_index } => self.take_over(from_index, model),
            SequenceCommand::Import { from, to, bytes } => {
                let chunk = Chunk { from, to, bytes: bytes.into_bytes() };
                let why = self.buffer(chunk, kv_bytes_per_token).err()?;
                Some(SequenceEvent::ImportRefused { from, to, why: why.to_owned() })
            }
            SequenceCommand::StopAfter { index } => {
                self.stop_after = Some(index);
                None
            }
            SequenceCommand::GoOn => {
                self.stop_after = None;
                None
            }
            SequenceCommand::Expect { from } => {
                self.expect = from;
                None
            }
            SequenceCommand::Pause(paused) => {
                self.paused = paused;
                None
            }
            // The batcher's: exports wait for their turn among those of all sequences.
            SequenceCommand::Export { .. } => None,
        }
    }

    fn extend(&mut self, from_index: usize, ids: &[TokenId], model: &dyn Model) -> Result<(), String> {
        let known = self.generated().len();
        if from_index > known {
            return Err(format!("the ids from {known} on are missing"));
        }
        let (repeated, new) = ids.split_at(ids.len().min(known - from_index));
        if self.generated()[from_index..][..repeated.len()] != *repeated {
            return Err("other ids are known at these places".to_owned());
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.role == Role::Worker {
            return Err("it draws its tokens itself".to_owned());
        }
        if self.ids.len() + new.len() > self.cells as usize {
            return Err(format!("it has room for {} tokens", self.cells));
        }
        if let Some(id) = new.iter().find(|id| id.0 >= model.facts().vocabulary) {
            return Err(format!("token {id} is not in the vocabulary"));
        }
        self.ids.extend_from_slice(new);
        self.read(new, model);
        Ok(())
    }

    /// Brings the text up to these ids.
    fn read(&mut self, ids: &[TokenId], model: &dyn Model) {
        let mut piece = Vec::new();
        for id in ids {
            piece.clear();
            model.piece(*id, &mut piece);
            self.text.push(&piece);
        }
    }

    /// Somebody waits for it from here on. What was said to the standby is not meant for the successor.
    fn get_ready(&mut self) {
        if self.role == Role::Standby {
            self.role = Role::Successor;
            (self.stop_after, self.paused) = (None, false);
        }
    }

    /// Becomes the worker; an answer that is complete already ends here.
    fn take_over(&mut self, from_index: u32, model: &mut dyn Model) -> Option<SequenceEvent> {
        if self.role == Role::Worker {
            return None;
        }
        let known = self.generated().len();
        if known < from_index as usize {
            return Some(SequenceEvent::TakeOverRefused { from_index, known: known as u32 });
        }
        if known > from_index as usize {
            self.unlearn(from_index as usize, model);
        }
        self.get_ready();
        self.role = Role::Worker;
        (self.expect, self.paused) = (None, false);
        self.chunks.keep_next(self.held(), self.last() as u32);
        self.context_len = self.ids.len();
        let is_full = self.ids.len() >= self.context_tokens;
        let reason = completion(model, &self.text, self.generated(), self.max_tokens, is_full)?;
        Some(SequenceEvent::Finished { reason, text: self.text.finish() })
    }

    /// Forgets the ids from that index on: the origin says that others follow.
    fn unlearn(&mut self, from_index: usize, model: &mut dyn Model) {
        self.ids.truncate(self.prompt_len + from_index);
        self.text.restart();
        let generated = self.generated().to_vec();
        self.read(&generated, model);
        if let Some(slot) = self.slot
            && self.held > self.last()
        {
            model.truncate(slot, self.last() as u32);
            self.set_held(model.held(slot) as usize);
        }
    }

    /// What the slot holds after something was taken back.
    pub(crate) fn set_held(&mut self, held: usize) {
        self.held = self.held.min(held);
        self.pulled = self.pulled.min(self.held);
    }

    /// Lets a chunk wait for its turn. One that is not needed any more is dropped without a word: pulls that were under
    /// way arrive late.
    fn buffer(&mut self, chunk: Chunk, kv_bytes_per_token: u32) -> Result<(), &'static str> {
        if self.slot.is_none() {
            return Err("it has no place in the KV cache yet");
        }
        if !is_chunk(chunk.from, chunk.to) || chunk.to > self.cells {
            return Err("it has no room for these positions");
        }
        let is_late = self.role == Role::Worker && chunk.to as usize > self.last();
        if is_late || chunk.from < self.held() {
            return Ok(());
        }
        // What its cells take, and a chunk more, since the last one may carry a whole sliding window.
        let bytes = self.cells as usize * kv_bytes_per_token as usize + MAX_CHUNK_BYTES as usize;
        match self.chunks.add(chunk, Room { positions: self.cells, bytes }) {
            Added::Waits | Added::Overlaps => Ok(()),
            Added::Full => Err("as many chunks wait as may"),
        }
    }

    /// Whether a chunk can be imported now: all before it is held, and its ids are known.
    pub(crate) fn has_import(&self) -> bool {
        self.slot.is_some() && self.chunks.is_next(self.held(), self.last() as u32)
    }

    /// Imports the chunk whose turn it is. What the model says is not believed: the count decides. A chunk that is refused
    /// takes the waiting ones with it, and the sequence goes on from its ids.
    pub(crate) fn import(&mut self, model: &mut dyn Model) -> Option<SequenceEvent> {
        let slot = self.slot?;
        let Chunk { from, to, bytes } = self.chunks.take(self.held())?;
        let outcome = model.import(slot, from, to, &bytes);
        let holds = model.held(slot);
        if outcome.is_ok() && holds == to {
            self.held = to as usize;
            self.pulled += (to - from) as usize;
            return None;
        }
        let why = match outcome {
            Err(error) => error.to_string(),
            Ok(()) => format!("{holds} positions are held after it"),
        };
        if model.held(slot) > from {
            model.truncate(slot, from);
        }
        if model.held(slot) > from {
            // What it holds cannot be trusted: all is read again.
            model.forget(slot);
        }
        self.set_held(model.held(slot) as usize);
        self.chunks.clear();
        self.expect = None;
        Some(SequenceEvent::ImportRefused { from, to, why })
    }

    /// Before an evaluation: what cannot be gone on from, since no import brought its window, is read again.
    pub(crate) fn take_back_to_resumable(&mut self, model: &mut dyn Model) {
        let Some(slot) = self.slot.filter(|_| self.wants() > 0) else { return };
        let resumable = model.resumable(slot);
        // A slot that holds something else altogether is an error, and the evaluation finds it.
        if resumable < self.held() && model.held(slot) == self.held() {
            model.truncate(slot, resumable);
            self.set_held(model.held(slot) as usize);
        }
    }

    /// How much one that does not draw yet holds, where it is time to tell.
    pub(crate) fn poll_held(&mut self, now: Instant, model: &dyn Model) -> Option<SequenceEvent> {
        let slot = self.slot.filter(|_| self.role != Role::Worker)?;
        let held = self.held.min(model.resumable(slot) as usize);
        let tokens = if held >= self.last() { self.ids.len() } else { held };
        let (said, at) = self.said;
        let rests = self.wants() == 0 && !self.has_import();
        let is_due = rests || tokens >= said + HELD_TOKENS || at.is_none_or(|at| now >= at + HELD_EVERY);
        if tokens <= said || !is_due {
            return None;
        }
        self.said = (tokens, Some(now));
        Some(SequenceEvent::Held { tokens: tokens as u32, pulled_tokens: self.pulled.min(held) as u32 })
    }
}
