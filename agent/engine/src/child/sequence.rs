//! One sequence that has a slot: its ids, how many the KV cache holds, and what each new token means.

use idlewild_protocol::{FinishReason, JobFailure, Sampling, TokenId};

use super::model::{Entry, Model};
use super::prepare::Prepared;
use super::sampler::{self, Scratch};
use super::text::TextStream;
use crate::SequenceEvent;
use crate::job::SequenceId;

/// A sequence before it has a slot.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) id: SequenceId,
    pub(crate) prepared: Prepared,
    pub(crate) sampling: Sampling,
    pub(crate) max_tokens: u32,
}

impl Candidate {
    /// Cells of the KV cache that it may need in the end: reserved at once, so that no running sequence is ever starved.
    pub(crate) fn cells(&self, context_tokens: u32) -> u32 {
        let left = self.max_tokens.saturating_sub(self.prepared.generated().len() as u32);
        (self.prepared.ids.len() as u32).saturating_add(left).min(context_tokens)
    }
}

/// A sequence that runs.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    pub(crate) slot: u16,
    /// Cells reserved.
    pub(crate) cells: u32,
    ids: Vec<TokenId>,
    prompt_len: usize,
    /// Ids to evaluate before the first draw: prompt and what was generated elsewhere.
    context_len: usize,
    evaluated: usize,
    sampling: Sampling,
    max_tokens: usize,
    context_tokens: usize,
    text: TextStream,
}

impl Sequence {
    pub(crate) fn new(candidate: Candidate, slot: u16, context_tokens: u32) -> Self {
        let cells = candidate.cells(context_tokens);
        let Candidate { id, prepared, sampling, max_tokens } = candidate;
        Self {
            id,
            slot,
            cells,
            context_len: prepared.ids.len(),
            prompt_len: prepared.prompt_len,
            ids: prepared.ids,
            evaluated: 0,
            sampling,
            max_tokens: max_tokens as usize,
            context_tokens: context_tokens as usize,
            text: prepared.text,
        }
    }

    /// Ids that the KV cache does not hold yet; at least one.
    pub(crate) fn remaining(&self) -> usize {
        self.ids.len() - self.evaluated
    }

    /// The next `count` ids as entries; the last id of all asks for logits.
    pub(crate) fn entries(&self, count: usize) -> impl Iterator<Item = Entry> + '_ {
        let last = self.ids.len() - 1;
        (self.evaluated..self.evaluated + count).map(move |at| Entry {
            slot: self.slot,
            position: at as u32,
            id: self.ids[at],
            wants_logits: at == last,
        })
    }

    /// Notes that `count` ids more are in the KV cache. Tells how far a context has been read.
    pub(crate) fn advance(&mut self, count: usize) -> Option<SequenceEvent> {
        let was_reading = self.evaluated < self.context_len;
        self.evaluated += count;
        was_reading.then_some(SequenceEvent::Prefilled { done: self.evaluated as u32, total: self.context_len as u32 })
    }

    /// Draws the next token from `logits` and tells what it means; the last event may be the sequence's last.
    pub(crate) fn draw(&mut self, model: &dyn Model, logits: &[f32], scratch: &mut Scratch) -> Vec<SequenceEvent> {
        let index = self.ids.len() - self.prompt_len;
        let Some(id) = sampler::draw(logits, &self.ids, &self.sampling, index as u32, scratch) else {
            return vec![SequenceEvent::Failed(JobFailure::Engine("the model gave no finite logits".to_owned()))];
        };
        if model.is_end(id) {
            return vec![SequenceEvent::Finished { reason: FinishReason::Stop, text: self.text.finish() }];
        }
        self.ids.push(id);
        let mut piece = Vec::new();
        model.piece(id, &mut piece);
        let text = self.text.push(&piece);
        let mut events = vec![SequenceEvent::Token { index: index as u32, id, text }];
        if self.text.is_stopped() {
            events.push(SequenceEvent::Finished { reason: FinishReason::Stop, text: String::new() });
        } else if index + 1 >= self.max_tokens || self.ids.len() >= self.context_tokens {
            events.push(SequenceEvent::Finished { reason: FinishReason::Length, text: self.text.finish() });
        }
        events
    }
}
