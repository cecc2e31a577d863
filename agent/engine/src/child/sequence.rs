//! One sequence: its ids, how many of them the KV cache holds, and what each new token means.

use std::time::Instant;

use idlewild_protocol::{FinishReason, JobFailure, Sampling, TokenId};

use super::chunks::Chunks;
use super::model::{Entry, Model};
use super::prepare::Prepared;
use super::sampler::{self, Scratch};
use super::text::TextStream;
use crate::job::{Role, SequenceId};
use crate::{EngineJob, SequenceEvent};

/// A sequence, from when it waits until it is over.
///
/// Invariant: the KV cache holds exactly the positions [0, `held`) of its slot; at least the last id is missing, since its
/// evaluation gives the next token.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    pub(crate) role: Role,
    /// Its place in the KV cache; none while it waits.
    pub(crate) slot: Option<u16>,
    /// Cells of the KV cache that it may need in the end: reserved at once, so that no running sequence is ever starved.
    pub(crate) cells: u32,
    pub(super) ids: Vec<TokenId>,
    pub(super) prompt_len: usize,
    /// Ids to evaluate before the first draw: prompt and what was generated elsewhere.
    pub(super) context_len: usize,
    pub(super) held: usize,
    /// Of `held`, the positions that were imported.
    pub(super) pulled: usize,
    sampling: Sampling,
    pub(super) max_tokens: usize,
    pub(super) context_tokens: usize,
    pub(super) text: TextStream,
    /// The chunks that wait.
    pub(super) chunks: Chunks,
    /// Positions from here on are imported, not evaluated: of one that does not draw yet.
    pub(super) expect: Option<u32>,
    pub(super) paused: bool,
    /// The last index that is drawn.
    pub(super) stop_after: Option<u32>,
    /// What the last `Held` said, and when.
    pub(super) said: (usize, Option<Instant>),
    /// What it held at the last look at it, while it was to be read.
    stood_at: Option<usize>,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, role: Role, prepared: Prepared, job: &EngineJob, context_tokens: u32) -> Self {
        let known = prepared.ids.len() as u32;
        let left = job.max_tokens.saturating_sub(prepared.generated().len() as u32);
        Self {
            id,
            role,
            slot: None,
            cells: known.saturating_add(left).min(context_tokens),
            context_len: prepared.ids.len(),
            prompt_len: prepared.prompt_len,
            ids: prepared.ids,
            held: 0,
            pulled: 0,
            sampling: job.sampling,
            max_tokens: job.max_tokens as usize,
            context_tokens: context_tokens as usize,
            text: prepared.text,
            chunks: Chunks::default(),
            expect: None,
            paused: false,
            stop_after: None,
            said: (0, None),
            stood_at: None,
        }
    }

    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.ids[..self.prompt_len]
    }

    pub(crate) fn generated(&self) -> &[TokenId] {
        &self.ids[self.prompt_len..]
    }

    /// Positions that the KV cache holds.
    pub(crate) fn held(&self) -> u32 {
        self.held as u32
    }

    /// Ids that the next step may evaluate, if it takes that many; 0 while it waits for something.
    pub(crate) fn wants(&self) -> usize {
        if self.slot.is_none() || self.paused || self.is_parked() {
            return 0;
        }
        let end = match self.role {
            Role::Worker => self.ids.len(),
            Role::Successor | Role::Standby => {
                self.expect.map_or(self.last(), |expected| self.last().min(expected as usize))
            }
        };
        let end = self.chunks.first().map_or(end, |first| end.min(first as usize));
        end.saturating_sub(self.held)
    }

    /// Position of the last id: the only one that is never imported, since the next token is drawn from its logits.
    pub(super) fn last(&self) -> usize {
        self.ids.len() - 1
    }

    /// Whether it has drawn all that it was to.
    fn is_parked(&self) -> bool {
        let next_index = self.generated().len();
        self.role == Role::Worker && self.stop_after.is_some_and(|index| next_index > index as usize)
    }

    /// Whether the next evaluation gives a token.
    pub(crate) fn is_decoding(&self) -> bool {
        self.role == Role::Worker && self.held == self.last() && self.wants() == 1
    }

    /// The next `count` ids as entries; the last id of all asks for logits.
    pub(crate) fn entries(&self, count: usize) -> impl Iterator<Item = Entry> + '_ {
        let slot = self.slot.unwrap_or_default();
        (self.held..self.held + count).map(move |at| Entry {
            slot,
            position: at as u32,
            id: self.ids[at],
            wants_logits: at == self.last(),
        })
    }

    /// Notes that `count` ids more are in the KV cache. Tells how far a worker's context has been read.
    pub(crate) fn advance(&mut self, count: usize) -> Option<SequenceEvent> {
        let was_reading = self.role == Role::Worker && self.held < self.context_len;
        self.held += count;
        was_reading.then(|| self.read_so_far())
    }

    /// How far a worker's context has been read.
    pub(crate) fn read_so_far(&self) -> SequenceEvent {
        // More is held where what was drawn is read again as well, after its positions were taken back.
        let done = self.held.min(self.context_len) as u32;
        SequenceEvent::Prefilled { done, total: self.context_len as u32 }
    }

    /// Whether it waits to be read and holds what it held at the last call.
    pub(crate) fn stands_still(&mut self) -> bool {
        let is_to_be_read = self.wants() > 0 && !self.is_decoding();
        let before = core::mem::replace(&mut self.stood_at, is_to_be_read.then_some(self.held));
        is_to_be_read && before == Some(self.held)
    }

    /// Whether a token is to be drawn now, after the last evaluation.
    pub(crate) fn is_read(&self) -> bool {
        self.held == self.ids.len()
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
