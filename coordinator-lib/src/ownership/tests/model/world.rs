//! The world around one origin: what it is told, and what it brings about.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet};

use idlewild_protocol::{
    Epoch, JobEvent, JobInput, JobStart, PeerId, PlaceOutcome, PlaceReply, PlanReason, PlanStep, RequestId, Term,
    TokenId, Way,
};

use super::super::bench::{PROMPT, peer, proposal, spec};
use super::job::{Job, Prepared, event_of, token_of, writer_of, writers_of};
use super::{Bounds, Bug, Network};
use crate::Now;
use crate::ownership::{
    Dropped, Ending, Input, Limits, LossReason, Output, Preparation, RequestMachine, RequestSpec, StandbyNews,
};

/// Assignments of a machine that is not to give up.
const MANY: u32 = 64;

/// Writer of what a destination says too early.
const TOO_EARLY: Epoch = Epoch(99);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct World {
    pub(super) origin: RequestMachine,
    pub(super) jobs: BTreeMap<Epoch, Job>,
    pub(super) prepared: Option<Prepared>,
    /// Attempts that were asked about.
    pub(super) asked: BTreeSet<u32>,
    pub(super) proposals: u64,
    pub(super) ghost: Ghost,
}

/// What the client was sent, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one property that was broken")]
pub(super) struct Ghost {
    /// Epoch that wrote each index.
    pub(super) writers: Vec<u32>,
    pub(super) gap_or_double: bool,
    pub(super) wrong_writer: bool,
    pub(super) wrong_start: bool,
    pub(super) two_at_work: bool,
    pub(super) followed_stale: bool,
    pub(super) truncated: bool,
    pub(super) done: bool,
    pub(super) failed: bool,
    pub(super) client_gone: bool,
    pub(super) handed_over: bool,
    pub(super) spoke_after_the_end: bool,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let origin = &self.origin;
        (&origin.log, &origin.placing, &origin.running, &origin.failures, origin.is_over()).hash(state);
        (origin.standby(), origin.latest, origin.preparations).hash(state);
        origin.standby.as_ref().map(|standby| (standby.preparation, standby.forwarded)).hash(state);
        for assignment in &origin.story {
            (assignment.epoch, assignment.worker, assignment.from_index, assignment.ended.is_some()).hash(state);
        }
        (&self.jobs, &self.prepared, &self.asked, self.proposals, &self.ghost).hash(state);
    }
}

impl World {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let spec = RequestSpec { max_tokens: bounds.answer, ..spec() };
        let limits = Limits::untimed(if bounds.gives_up { bounds.assignments } else { MANY });
        let mut world = Self {
            origin: RequestMachine::new(Now::ZERO, spec, limits),
            jobs: BTreeMap::new(),
            prepared: None,
            asked: BTreeSet::new(),
            proposals: 0,
            ghost: Ghost::default(),
        };
        world.carry_out(None, bounds);
        world
    }

    pub(super) fn hear(&mut self, input: Input, by: Option<Epoch>, bounds: &Bounds) {
        self.origin.handle(Now::ZERO, input);
        self.carry_out(by, bounds);
    }

    /// `by`: the epoch whose worker was heard.
    fn carry_out(&mut self, by: Option<Epoch>, bounds: &Bounds) {
        while let Some(output) = self.origin.poll_output() {
            self.ghost.spoke_after_the_end |= self.ghost.done || self.ghost.failed || self.ghost.client_gone;
            match output {
                Output::AskPlacement(question) | Output::PlaceAlone(question) => {
                    self.asked.insert(question.attempt);
                }
                Output::Start { worker, start } => self.start(worker, &start, bounds),
                Output::Text { index, text } if text.is_empty() => self.write(index, by),
                Output::Text { .. } => self.ghost.gap_or_double = true,
                Output::Done { output_tokens, .. } => {
                    self.ghost.done = true;
                    let is_whole = output_tokens == bounds.answer && self.ghost.writers.len() == output_tokens as usize;
                    self.ghost.truncated = !is_whole;
                }
                Output::Failed(_) => self.ghost.failed = true,
                Output::Cancel { epoch, .. } => self.job(epoch).is_over = true,
                Output::StopAfter { epoch, index, .. } => self.stop_after(epoch, index, bounds),
                Output::GoOn { epoch, .. } => self.job(epoch).go_on(bounds.answer),
                Output::Prepare { destination, preparation, context, .. } => {
                    self.prepare(destination, preparation, &context);
                }
                Output::Forward { preparation, from_index, ids, .. } => self.forward(preparation, from_index, &ids),
                Output::TakeOver { preparation, epoch, from_index, .. } => {
                    self.take_over(preparation, epoch, from_index, bounds);
                }
                Output::Release { .. } => self.prepared = None,
                Output::Keep { .. }
                | Output::Refused { .. }
                | Output::Standby(_)
                | Output::Prompt { .. }
                | Output::Moved { .. } => {}
            }
        }
    }

    fn start(&mut self, worker: PeerId, start: &JobStart, bounds: &Bounds) {
        let written = match &start.input {
            JobInput::Tokens { generated, .. } => writers_of(generated),
            JobInput::Chat { .. } | JobInput::Text { .. } => Vec::new(),
        };
        self.ghost.wrong_start |= written != self.ghost.writers;
        let from = written.len() as u32;
        self.begin(start.epoch, Job::new(worker.0[0], from, bounds.answer, bounds.network));
    }

    fn begin(&mut self, epoch: Epoch, job: Job) {
        self.ghost.wrong_start |= self.jobs.last_key_value().is_some_and(|(last, _)| *last >= epoch);
        let is_at_work = |job: &Job| !job.is_over && !job.is_leaving && job.told_to_stop.is_none();
        self.ghost.two_at_work |= self.jobs.values().any(is_at_work);
        self.jobs.insert(epoch, job);
    }

    fn write(&mut self, index: u32, by: Option<Epoch>) {
        let token = self.origin.log().generated().get(index as usize).copied();
        self.ghost.gap_or_double |= index as usize != self.ghost.writers.len() || token.is_none();
        let writer = token.map_or(0, writer_of);
        let live = self.jobs.last_key_value().map_or(0, |(epoch, _)| epoch.0);
        self.ghost.wrong_writer |= Some(Epoch(writer)) != by || writer != live;
        self.ghost.writers.push(writer);
    }

    pub(super) fn job(&mut self, epoch: Epoch) -> &mut Job {
        self.jobs.get_mut(&epoch).unwrap()
    }

    fn stop_after(&mut self, epoch: Epoch, index: u32, bounds: &Bounds) {
        if bounds.bug == Some(Bug::CommitsWithoutStop) {
            let missing = index + 1 - self.ghost.writers.len() as u32;
            self.origin.stop_waiting(Now::ZERO);
            // It begins where it was promised the log would be.
            self.carry_out(None, bounds);
            let (_, mut job) = self.jobs.pop_last().unwrap();
            let epoch = self.origin.live().unwrap().0;
            job.wire.drain(1..=missing as usize);
            self.jobs.insert(epoch, job);
        } else {
            self.job(epoch).told_to_stop = Some(index);
        }
    }

    fn prepare(&mut self, destination: PeerId, preparation: Preparation, context: &JobStart) {
        let JobInput::Tokens { prompt, generated } = &context.input else { panic!("no ids") };
        self.ghost.wrong_start |= prompt[..] != PROMPT || self.prepared.is_some() || context.epoch != Epoch(0);
        let writers = writers_of(generated);
        self.prepared = Some(Prepared { preparation, worker: destination.0[0], writers });
    }

    fn forward(&mut self, preparation: Preparation, from_index: u32, ids: &[TokenId]) {
        let prepared = self.prepared.as_mut().unwrap();
        self.ghost.wrong_start |= prepared.preparation != preparation || prepared.writers.len() != from_index as usize;
        prepared.writers.extend(writers_of(ids));
    }

    fn take_over(&mut self, preparation: Preparation, epoch: Epoch, from_index: u32, bounds: &Bounds) {
        let prepared = self.prepared.take().unwrap();
        self.ghost.wrong_start |= prepared.preparation != preparation
            || prepared.writers != self.ghost.writers
            || prepared.writers.len() != from_index as usize;
        self.ghost.handed_over = true;
        let job = Job::new(prepared.worker, from_index, bounds.answer, bounds.network);
        self.begin(epoch, Job { preparation: Some(preparation), ..job });
    }

    pub(super) fn answer(&mut self, attempt: u32, worker: Option<u8>, bounds: &Bounds) {
        let outcome = match worker {
            Some(n) => PlaceOutcome::Run { worker: peer(n), fallback: None },
            None => PlaceOutcome::Nowhere,
        };
        let request = RequestId([7; 16]);
        let reply = PlaceReply { request, attempt, term: Term(1), outcome, terms: Vec::new() };
        self.hear(Input::Placed(reply), None, bounds);
    }

    pub(super) fn hear_said(&mut self, epoch: Epoch, at: usize, bounds: &Bounds) {
        let said = match bounds.network {
            Network::Streams => self.job(epoch).wire.pop_front().unwrap(),
            Network::Chaos => self.job(epoch).wire[at],
        };
        let live = self.origin.live().map(|(live, _)| live);
        let is_trusted = bounds.bug == Some(Bug::TrustsAnyEpoch);
        let claimed = if is_trusted { live.unwrap_or(epoch) } else { epoch };
        let event = event_of(said, epoch, claimed);
        let ends = matches!(event, JobEvent::Failed { .. } | JobEvent::Finished { .. });
        let leaves = matches!(event, JobEvent::Leaving { .. });
        let job = self.job(epoch);
        (job.is_over, job.is_leaving) = (job.is_over || ends, job.is_leaving || leaves);
        self.hear(Input::Event { epoch: claimed, event }, Some(epoch), bounds);
    }

    pub(super) fn cut(&mut self, epoch: Epoch, bounds: &Bounds) {
        self.job(epoch).cut();
        if bounds.bug == Some(Bug::ForgetsToGoOn) && self.origin.live().is_some_and(|(live, _)| live == epoch) {
            self.origin.drop_standby(Dropped::Released);
            self.origin.end_assignment(Now::ZERO, Ending::Lost(LossReason::Closed));
        }
        self.hear(Input::Lost { epoch, why: LossReason::Closed }, None, bounds);
    }

    /// Proposes; a stale one must change nothing.
    pub(super) fn propose(&mut self, number: u64, epoch: Epoch, step: PlanStep, bounds: &Bounds) {
        let is_stale = self.origin.live().is_none_or(|(live, _)| live != epoch) || number <= self.proposals;
        let before = self.origin.clone();
        self.proposals = self.proposals.max(if is_stale { 0 } else { number });
        let is_split = matches!(step, PlanStep::Commit { way: Way::StoppedSplit, .. });
        let mut plan = proposal(1, number, epoch.0, step);
        if is_split {
            plan.terms.reason = PlanReason::Notice;
        }
        self.hear(Input::Proposed(plan), None, bounds);
        self.ghost.followed_stale |= is_stale && self.origin != before;
    }

    pub(super) fn standby(&mut self, preparation: Preparation, news: StandbyNews, bounds: &Bounds) {
        self.hear(Input::Standby { preparation, news }, None, bounds);
    }

    /// The stream of this preparation is no more, whether or not it has become that of an assignment.
    pub(super) fn lose_standby(&mut self, preparation: Preparation, bounds: &Bounds) {
        let lost = self.jobs.values_mut().filter(|job| job.preparation == Some(preparation));
        lost.for_each(Job::cut);
        self.standby(preparation, StandbyNews::Lost(LossReason::Closed), bounds);
    }

    /// The destination has read all that it was sent.
    pub(super) fn catch_up(&mut self, bounds: &Bounds) {
        let Some(prepared) = &self.prepared else { return };
        let held_tokens = (PROMPT.len() + prepared.writers.len()) as u32;
        self.standby(prepared.preparation, StandbyNews::Progress { held_tokens }, bounds);
    }

    /// The bug: a token of the destination's, under the source's epoch.
    pub(super) fn speak_too_early(&mut self, bounds: &Bounds) {
        let (Some(_), Some((epoch, _))) = (&self.prepared, self.origin.live()) else { return };
        let index = self.origin.log().next_index();
        let event = JobEvent::Token { epoch, index, id: token_of(TOO_EARLY, index), text: String::new() };
        self.hear(Input::Event { epoch, event }, Some(TOO_EARLY), bounds);
    }
}
