//! Continuous batching: sequences come, wait for a slot and KV room, run together, and go.
//!
//! ```text
//! begin -> prepare -> waiting --admit--> placed --copy, compute--> finished, failed or cancelled
//!                                          ^ commands: ids, chunks, stop, go on, take over
//! ```
//!
//! A step first copies (at most one chunk, in or out), then computes (one batch). Nothing here touches pipes or
//! threads: commands go in by method calls, events come out of [`Batcher::events`].
//!
//! Invariant: a slot holds tokens in the KV cache only while a placed sequence has it. Invariant: the cells reserved by
//! placed sequences never exceed the cache, so no step runs out of cells.

mod copying;
mod life;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use idlewild_protocol::{JobFailure, JobInput};

use super::admission::{self, Free, Turn};
use super::exports::{Export, Exports};
use super::halt::Halt;
use super::load::Loaded;
use super::model::{BATCH_TOKENS, Entry, Model};
use super::plan::{self, Want};
use super::prepare::prepare;
use super::rates::{Rates, Together};
use super::sampler::Scratch;
use super::sequence::Sequence;
use crate::handle::SequenceCommand;
use crate::job::{Beginning, Role, SequenceId};
use crate::messages::{ChildStats, EngineEvent};
use crate::{EngineJob, ExportError, SequenceEvent, WAITING_CHUNKS_BYTES_MAX};

/// Workers and successors that may wait, and standbys as many. More would wait longer than another peer takes.
pub(crate) const WAITING_MAX: usize = 16;

/// The sequences of one loaded model.
pub(crate) struct Batcher {
    model: Box<dyn Model>,
    kv_bytes_per_token: u32,
    slots: u16,
    waiting: VecDeque<Sequence>,
    /// Those that have a slot, in the order in which they got it.
    placed: Vec<Sequence>,
    exports: Exports,
    /// Whether the last chunk that was copied came in.
    was_import: bool,
    /// Bytes of chunks that may wait in all sequences together.
    waiting_bytes_max: usize,
    rates: Rates,
    halt: Arc<Halt>,
    scratch: Scratch,
    batch: Vec<Entry>,
    events: Vec<EngineEvent>,
    proof_due: Option<Instant>,
}

impl Batcher {
    pub(crate) fn over(loaded: Loaded, slots: u16, halt: Arc<Halt>) -> Self {
        halt.attach(loaded.model.interrupter());
        Self {
            model: loaded.model,
            kv_bytes_per_token: loaded.report.kv_bytes_per_token,
            slots,
            waiting: VecDeque::new(),
            placed: Vec::new(),
            exports: Exports::default(),
            was_import: false,
            waiting_bytes_max: WAITING_CHUNKS_BYTES_MAX as usize,
            rates: loaded.rates,
            halt,
            scratch: Scratch::default(),
            batch: Vec::with_capacity(BATCH_TOKENS),
            events: Vec::new(),
            proof_due: None,
        }
    }

    /// Takes a job: it runs, waits, or fails at once.
    pub(crate) fn begin(&mut self, id: SequenceId, job: &EngineJob, beginning: impl Into<Beginning>) {
        let Beginning { role, expect } = beginning.into();
        let rivals = self.waiting.iter().filter(|other| other.role.is_option() == role.is_option());
        if rivals.count() >= WAITING_MAX {
            self.emit(id, SequenceEvent::Failed(JobFailure::Busy));
            return;
        }
        if role != Role::Worker && !matches!(job.input, JobInput::Tokens { .. }) {
            let why = "only token ids can be got ready for elsewhere".to_owned();
            self.emit(id, SequenceEvent::Failed(JobFailure::BadInput(why)));
            return;
        }
        let mut prepared = match prepare(&*self.model, job) {
            Ok(prepared) => prepared,
            Err(failure) => {
                self.emit(id, SequenceEvent::Failed(failure));
                return;
            }
        };
        let complete = prepared.complete.filter(|_| role == Role::Worker);
        let text = if complete.is_some() { prepared.text.finish() } else { String::new() };
        let mut sequence = Sequence::new(id, role, prepared, job, self.model.facts().context_tokens);
        sequence.expect = expect;
        if role == Role::Worker {
            self.emit(id, SequenceEvent::Accepted { prompt: sequence.prompt().to_vec() });
        }
        match complete {
            Some(reason) => self.emit(id, SequenceEvent::Finished { reason, text }),
            None => self.waiting.push_back(sequence),
        }
    }

    /// Obeys a command to one sequence; to one that is no more it means nothing.
    pub(crate) fn tell(&mut self, id: SequenceId, command: SequenceCommand) {
        let sequence = self.placed.iter_mut().chain(&mut self.waiting).find(|sequence| sequence.id == id);
        if let SequenceCommand::Export { ticket, from, to } = command {
            let answer = if sequence.is_some() {
                self.exports.add(Export { ticket, id, from, to })
            } else {
                Some(EngineEvent::Exported { ticket, outcome: Err(ExportError::Gone) })
            };
            self.events.extend(answer);
            return;
        }
        let Some(sequence) = sequence else { return };
        let drew = sequence.role == Role::Worker;
        let chunk_from = if let SequenceCommand::Import { from, .. } = &command { Some(*from) } else { None };
        let event = sequence.obey(command, &mut *self.model, self.kv_bytes_per_token);
        if !drew && sequence.role == Role::Worker && sequence.slot.is_none() {
            // It waits on as workers do, who are accepted before they have a slot.
            let prompt = sequence.prompt().to_vec();
            self.emit(id, SequenceEvent::Accepted { prompt });
        }
        if let Some(from) = chunk_from {
            self.bound_chunks(id, from);
        }
        let Some(event) = event else { return };
        let is_over = event.is_last();
        self.emit(id, event);
        if is_over {
            self.cancel(id);
        }
    }

    /// Drops a sequence, wherever it is; its slot and cells are free at once.
    pub(crate) fn cancel(&mut self, id: SequenceId) {
        self.waiting.retain(|sequence| sequence.id != id);
        self.release(|sequence| sequence.id == id);
    }

    /// Whether a step would do anything.
    pub(crate) fn has_work(&self) -> bool {
        let computes = !self.halt.is_on() && self.placed.iter().any(|sequence| sequence.wants() > 0);
        computes || !self.exports.is_empty() || self.placed.iter().any(Sequence::has_import) || self.turn().is_some()
    }

    /// Evaluates one batch. Interrupted by a halt, all is as it was before.
    pub(crate) fn compute(&mut self) {
        // In this order: a halt that begins later is another one, or seen.
        let halts = self.halt.times();
        if self.halt.is_on() {
            return;
        }
        let takes = self.fill_batch();
        if self.batch.is_empty() {
            return;
        }
        let (pieces, together) = plan::batch_load(&self.placed, &self.batch);
        let began = Instant::now();
        if let Err(why) = self.model.evaluate(&self.batch) {
            if self.halt.times() == halts {
                self.fail_batch(&takes, &why);
            } else {
                self.undo_batch(&takes);
            }
            return;
        }
        self.rates.learn(pieces, together, began.elapsed());
        self.take_results(&takes);
        self.tell_held();
    }

    /// What happened since the last call.
    pub(crate) fn events(&mut self) -> std::vec::Drain<'_, EngineEvent> {
        self.events.drain(..)
    }

    /// Counts and rates now.
    pub(crate) fn stats(&self) -> ChildStats {
        let (standbys, wanted): (Vec<_>, Vec<_>) = self.placed.iter().partition(|sequence| sequence.role.is_option());
        let running = wanted.len() as u16;
        let one_more = Together {
            sequences: (running + 1).min(self.slots),
            context_tokens: wanted.iter().map(|sequence| sequence.held() as usize).sum(),
        };
        ChildStats {
            running,
            waiting: self.waiting.iter().filter(|sequence| !sequence.role.is_option()).count() as u16,
            standbys: standbys.len() as u16,
            standby_tokens: standbys.iter().map(|standby| standby.cells).sum(),
            kv_tokens: self.model.facts().kv_tokens,
            kv_free_tokens: self.free().cells,
            decode_tps: self.rates.decode_tps(one_more),
            prefill_tps: self.rates.prefill_tps(0),
            decode_doubles_at: self.rates.decode_doubles_at(one_more),
            prefill_doubles_at: self.rates.prefill_doubles_at(),
        }
    }

    fn emit(&mut self, id: SequenceId, event: SequenceEvent) {
        self.events.push(EngineEvent::Sequence { id, event });
    }

    fn free(&self) -> Free {
        let reserved: u32 = self.placed.iter().map(|sequence| sequence.cells).sum();
        Free {
            slots: usize::from(self.slots) - self.placed.len(),
            cells: self.model.facts().kv_tokens.saturating_sub(reserved),
        }
    }

    fn turn(&self) -> Option<Turn> {
        admission::turn(self.waiting.iter(), &self.placed, self.free())
    }

    fn admit(&mut self) {
        while let Some(Turn { at, pushed_out }) = self.turn() {
            for _ in 0..pushed_out {
                self.push_out();
            }
            let slot = (0..self.slots).find(|slot| self.placed.iter().all(|other| other.slot != Some(*slot)));
            let Some(mut sequence) = self.waiting.remove(at) else { return };
            sequence.slot = slot;
            if sequence.role != Role::Worker {
                self.emit(sequence.id, SequenceEvent::Accepted { prompt: sequence.prompt().to_vec() });
            }
            self.placed.push(sequence);
        }
    }

    /// The youngest standby makes room.
    fn push_out(&mut self) {
        let Some(youngest) = self.placed.iter().rfind(|sequence| sequence.role.is_option()) else { return };
        let id = youngest.id;
        self.emit(id, SequenceEvent::Failed(JobFailure::Busy));
        self.release(|sequence| sequence.id == id);
    }

    /// Chooses what to evaluate; gives how many ids of each placed sequence.
    fn fill_batch(&mut self) -> Vec<usize> {
        for sequence in &mut self.placed {
            sequence.take_back_to_resumable(&mut *self.model);
        }
        let wants: Vec<Want> = self.placed.iter().map(want).collect();
        let prefill_tps = self.rates.prefill_tps(plan::longest_read(&self.placed, &wants));
        let piece = plan::piece_tokens(wants.contains(&Want::Decode), prefill_tps, BATCH_TOKENS);
        let takes = plan::takes(&wants, piece, BATCH_TOKENS);
        self.batch.clear();
        for (sequence, take) in self.placed.iter().zip(&takes) {
            self.batch.extend(sequence.entries(*take));
        }
        takes
    }

    fn take_results(&mut self, takes: &[usize]) {
        let mut over = Vec::new();
        let mut at = 0;
        for (sequence, take) in self.placed.iter_mut().zip(takes) {
            at += take;
            if *take == 0 {
                continue;
            }
            let mut events: Vec<SequenceEvent> = sequence.advance(*take).into_iter().collect();
            if sequence.is_read() {
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
            self.placed.iter().zip(takes).filter(|(_, take)| **take > 0).map(|(sequence, _)| sequence.id).collect();
        for id in &failed {
            self.emit(*id, SequenceEvent::Failed(JobFailure::Engine(why.to_owned())));
        }
        self.release(|sequence| failed.contains(&sequence.id));
    }

    /// Takes back what an interrupted batch may have left behind; its ids are evaluated again when the halt is over.
    fn undo_batch(&mut self, takes: &[usize]) {
        for (sequence, _) in self.placed.iter_mut().zip(takes).filter(|(_, take)| **take > 0) {
            let Some(slot) = sequence.slot else { continue };
            self.model.truncate(slot, sequence.held());
            sequence.set_held(self.model.held(slot) as usize);
        }
    }

    fn release(&mut self, is_over: impl Fn(&Sequence) -> bool) {
        let model = &mut self.model;
        self.placed.retain(|sequence| {
            let goes = is_over(sequence);
            if let Some(slot) = sequence.slot.filter(|_| goes) {
                model.forget(slot);
            }
            !goes
        });
    }
}

fn want(sequence: &Sequence) -> Want {
    match (sequence.role, sequence.wants()) {
        (_, 0) => Want::Nothing,
        (Role::Worker, _) if sequence.is_decoding() => Want::Decode,
        (Role::Worker | Role::Successor, left) => Want::Read(left),
        (Role::Standby, left) => Want::Keep(left),
    }
}

#[cfg(test)]
#[path = "batcher_tests/mod.rs"]
mod tests;
