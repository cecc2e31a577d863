//! Continuous batching: sequences come, wait for a slot and KV room, run together, and go.
//!
//! ```text
//! submit -> prepare -> waiting --admit--> running --step--> finished, failed or cancelled
//! ```
//!
//! Nothing here touches pipes or threads: commands go in by method calls, events come out of [`Batcher::events`].
//!
//! Invariant: a slot holds tokens in the KV cache only while a running sequence has it. Invariant: the cells reserved by
//! running sequences never exceed the cache, so no step runs out of cells.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use idlewild_protocol::JobFailure;

use super::model::{BATCH_TOKENS, Entry, Model};
use super::plan;
use super::prepare::prepare;
use super::rates::Rates;
use super::sampler::Scratch;
use super::sequence::{Candidate, Sequence};
use crate::job::SequenceId;
use crate::messages::{ChildStats, EngineEvent};
use crate::{EngineJob, SequenceEvent};

/// Sequences that may wait. More would wait longer than another peer takes.
pub(crate) const WAITING_MAX: usize = 16;

/// How often a waiting sequence shows that it is alive; its origin gives up after 3.5 s of silence.
const PROOF_OF_LIFE: Duration = Duration::from_secs(1);

/// The sequences of one loaded model.
pub(crate) struct Batcher {
    model: Box<dyn Model>,
    slots: u16,
    waiting: VecDeque<Candidate>,
    running: Vec<Sequence>,
    rates: Rates,
    scratch: Scratch,
    batch: Vec<Entry>,
    events: Vec<EngineEvent>,
    proof_due: Option<Instant>,
}

impl Batcher {
    pub(crate) fn new(model: Box<dyn Model>, slots: u16, rates: Rates) -> Self {
        Self {
            model,
            slots,
            waiting: VecDeque::new(),
            running: Vec::new(),
            rates,
            scratch: Scratch::default(),
            batch: Vec::with_capacity(BATCH_TOKENS),
            events: Vec::new(),
            proof_due: None,
        }
    }

    /// Takes a job: it runs, waits, or fails at once.
    pub(crate) fn submit(&mut self, id: SequenceId, job: &EngineJob) {
        if self.waiting.len() >= WAITING_MAX {
            self.emit(id, SequenceEvent::Failed(JobFailure::Busy));
            return;
        }
        let mut prepared = match prepare(&*self.model, job) {
            Ok(prepared) => prepared,
            Err(failure) => {
                self.emit(id, SequenceEvent::Failed(failure));
                return;
            }
        };
        self.emit(id, SequenceEvent::Accepted { prompt: prepared.prompt().to_vec() });
        if let Some(reason) = prepared.complete {
            let text = prepared.text.finish();
            self.emit(id, SequenceEvent::Finished { reason, text });
            return;
        }
        self.waiting.push_back(Candidate { id, prepared, sampling: job.sampling, max_tokens: job.max_tokens });
    }

    /// Drops a sequence, wherever it is; its slot and cells are free at once.
    pub(crate) fn cancel(&mut self, id: SequenceId) {
        self.waiting.retain(|candidate| candidate.id != id);
        self.release(|sequence| sequence.id == id);
    }

    /// Whether a step would do anything.
    pub(crate) fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Admits what fits, and evaluates one batch.
    pub(crate) fn step(&mut self) {
        self.admit();
        self.prove_life();
        let takes = self.fill_batch();
        if self.batch.is_empty() {
            return;
        }
        let decoding = self.running.iter().filter(|sequence| sequence.remaining() == 1).count();
        let began = Instant::now();
        if let Err(why) = self.model.evaluate(&self.batch) {
            self.fail_batch(&takes, &why);
            return;
        }
        self.rates.learn(self.batch.len() - decoding, decoding as u16, began.elapsed());
        self.take_results(&takes);
    }

    /// What happened since the last call.
    pub(crate) fn events(&mut self) -> std::vec::Drain<'_, EngineEvent> {
        self.events.drain(..)
    }

    /// Counts and rates now.
    pub(crate) fn stats(&self) -> ChildStats {
        let running = self.running.len() as u16;
        ChildStats {
            running,
            waiting: self.waiting.len() as u16,
            kv_tokens: self.model.facts().kv_tokens,
            kv_free_tokens: self.free_cells(),
            decode_tps: self.rates.decode_tps((running + 1).min(self.slots)),
            prefill_tps: self.rates.prefill_tps(),
        }
    }

    /// Tokens that the KV cache holds in all slots.
    #[cfg(test)]
    pub(crate) fn cells_held(&self) -> u32 {
        (0..self.slots).map(|slot| self.model.held(slot)).sum()
    }

    fn emit(&mut self, id: SequenceId, event: SequenceEvent) {
        self.events.push(EngineEvent::Sequence { id, event });
    }

    fn free_cells(&self) -> u32 {
        let reserved: u32 = self.running.iter().map(|sequence| sequence.cells).sum();
        self.model.facts().kv_tokens.saturating_sub(reserved)
    }

    /// First come, first served: one that needs many cells is not overtaken for ever by small ones.
    fn admit(&mut self) {
        let context_tokens = self.model.facts().context_tokens;
        while self.running.len() < usize::from(self.slots) {
            let fits = self.waiting.front().is_some_and(|next| next.cells(context_tokens) <= self.free_cells());
            let Some(candidate) = self.waiting.pop_front_if(|_| fits) else { return };
            let slot = (0..self.slots).find(|slot| self.running.iter().all(|other| other.slot != *slot));
            let slot = slot.unwrap_or_default();
            self.running.push(Sequence::new(candidate, slot, context_tokens));
        }
    }

    fn prove_life(&mut self) {
        let now = Instant::now();
        if self.proof_due.is_some_and(|due| now < due) {
            return;
        }
        self.proof_due = Some(now + PROOF_OF_LIFE);
        let alive = |candidate: &Candidate| EngineEvent::Sequence {
            id: candidate.id,
            event: SequenceEvent::Prefilled { done: 0, total: candidate.prepared.ids.len() as u32 },
        };
        self.events.extend(self.waiting.iter().map(alive));
    }

    /// Chooses what to evaluate; gives how many ids of each running sequence.
    fn fill_batch(&mut self) -> Vec<usize> {
        let remaining: Vec<usize> = self.running.iter().map(Sequence::remaining).collect();
        let piece = plan::piece_tokens(remaining.contains(&1), self.rates.prefill_tps(), BATCH_TOKENS);
        let takes = plan::takes(&remaining, piece, BATCH_TOKENS);
        self.batch.clear();
        for (sequence, take) in self.running.iter().zip(&takes) {
            self.batch.extend(sequence.entries(*take));
        }
        takes
    }

    fn take_results(&mut self, takes: &[usize]) {
        let mut over = Vec::new();
        let mut at = 0;
        for (sequence, take) in self.running.iter_mut().zip(takes) {
            at += take;
            if *take == 0 {
                continue;
            }
            let mut events: Vec<SequenceEvent> = sequence.advance(*take).into_iter().collect();
            if sequence.remaining() == 0 {
                let logits = self.model.logits(at - 1);
                events.extend(sequence.draw(&*self.model, logits, &mut self.scratch));
            }
            if events.last().is_some_and(SequenceEvent::is_last) {
                over.push(sequence.id);
            }
            let id = sequence.id;
            self.events.extend(events.into_iter().map(|event| EngineEvent::Sequence { id, event }));
        }
        self.release(|sequence| over.contains(&sequence.id));
    }

    /// What the slots of a failed batch hold is unknown: their sequences end, and the others go on.
    fn fail_batch(&mut self, takes: &[usize], why: &str) {
        tracing::warn!(why, tokens = self.batch.len(), "a step failed; its sequences end");
        let failed: Vec<SequenceId> =
            self.running.iter().zip(takes).filter(|(_, take)| **take > 0).map(|(sequence, _)| sequence.id).collect();
        for id in &failed {
            self.emit(*id, SequenceEvent::Failed(JobFailure::Engine(why.to_owned())));
        }
        self.release(|sequence| failed.contains(&sequence.id));
    }

    fn release(&mut self, is_over: impl Fn(&Sequence) -> bool) {
        let model = &mut self.model;
        self.running.retain(|sequence| {
            let goes = is_over(sequence);
            if goes {
                model.forget(sequence.slot);
            }
            !goes
        });
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
