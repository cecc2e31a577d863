//! The live assignment: what its worker says, and how it ends.

use idlewild_protocol::{Epoch, FinishReason, JobEvent, JobFailure, JobStart, PeerId, PlaceReply, TokenId};

use super::deadline::{Patience, Stage};
use super::leaving::Goodbye;
use crate::Now;
use crate::ownership::{
    Assignment, Dropped, Ending, Fault, LossReason, Output, Preparation, PulledKv, RequestError, RequestErrorKind,
    RequestMachine, Silence,
};

/// The assignment that may write the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Running {
    pub(super) epoch: Epoch,
    pub(super) worker: PeerId,
    pub(super) patience: Patience,
    /// The worker has told the prompt's ids.
    accepted: bool,
    /// The worker has said goodbye; another is looked for while it goes on.
    pub(super) leaving: Option<Goodbye>,
    /// Since when a worker had been looked for when it was found.
    searched_since: Now,
    /// It was a destination before.
    pub(super) preparation: Option<Preparation>,
}

impl RequestMachine {
    /// Raises the epoch and tells `worker` to go on from the log.
    pub(super) fn start(&mut self, now: Now, worker: PeerId, plan: PlaceReply) {
        self.replace_leaving(now);
        self.drop_standby(Dropped::Released);
        if self.left.is_some_and(|left| left.worker == worker) {
            // It would wait behind itself.
            self.let_go();
        }
        let epoch = self.begin(now, worker, plan, None);
        let start = Box::new(JobStart { pull: self.pull_from_left(now), ..self.spec.start(epoch, &self.log) });
        self.say(Output::Start { worker, start });
    }

    /// Raises the epoch: `worker` may write the log from here on. One that was prepared has accepted the prompt's ids.
    pub(super) fn begin(&mut self, now: Now, worker: PeerId, plan: PlaceReply, prepared: Option<Preparation>) -> Epoch {
        let searched_since = self.placing.end_search().unwrap_or(now);
        let epoch = self.story.last().map_or(Epoch(1), |last| last.epoch.next());
        self.forget_refusal_before(worker);
        let wait_s = plan.terms.iter().find(|t| t.peer == worker).map_or(0.0, |t| t.wait_s);
        let wait_s = if prepared.is_some() { 0.0 } else { wait_s };
        let patience = Patience::new(now, wait_s, self.failures.silences);
        if let Some(last) = self.story.last()
            && let Some((_, why)) = &last.ended
        {
            let (from, why) = (last.worker, why.clone());
            self.say(Output::Moved { from, to: worker, at_index: self.log.next_index(), why });
        }
        let from_index = self.log.next_index();
        self.story.push(Assignment { epoch, worker, plan, from_index, began: now, ended: None, pulled: None });
        let accepted = prepared.is_some();
        self.running =
            Some(Running { epoch, worker, patience, accepted, leaving: None, searched_since, preparation: prepared });
        epoch
    }

    /// A full worker is asked again and again: one refusal in a row tells all. Where several are, the story still keeps
    /// room for what runs.
    fn forget_refusal_before(&mut self, worker: PeerId) {
        let is_long = self.assignments() > self.limits.assignments_max / 2;
        if self.story.last().is_some_and(|last| last.was_refused() && (is_long || last.worker == worker)) {
            self.story.pop();
        }
    }

    /// The worker, unless it has said goodbye or there is none.
    pub(super) fn source(&self) -> Option<PeerId> {
        self.running.as_ref().filter(|running| running.leaving.is_none()).map(|running| running.worker)
    }

    /// Assignments so far.
    pub(super) fn assignments(&self) -> u32 {
        u32::try_from(self.story.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn handle_event(&mut self, now: Now, epoch: Epoch, event: JobEvent) {
        let is_live = self.running.as_ref().is_some_and(|r| r.epoch == epoch);
        if event.epoch() != epoch {
            return;
        }
        if !is_live {
            if let JobEvent::Leaving { cause, .. } = event {
                self.hear_late_goodbye(epoch, cause);
            }
            return;
        }
        match event {
            JobEvent::Accepted { prompt, .. } => self.handle_accepted(now, prompt),
            JobEvent::Prefilled { done, .. } => {
                self.sign_of_life(now, if done > 0 { Stage::Reading } else { Stage::Waiting });
            }
            JobEvent::Token { index, id, text, .. } => self.handle_token(now, index, id, text),
            JobEvent::Finished { reason, text, .. } => self.handle_finished(now, reason, text),
            JobEvent::Failed { failure, .. } => self.handle_failed(now, failure),
            JobEvent::Leaving { cause, notice_ms, .. } => self.handle_leaving(now, cause, notice_ms),
            // How far a worker is, its tokens say.
            JobEvent::Held { pulled_tokens: tokens, pulled_bytes: bytes, .. } => {
                if let Some(assignment) = self.story.last_mut().filter(|last| last.epoch == epoch) {
                    assignment.pulled = Some(PulledKv { tokens, bytes });
                }
            }
        }
    }

    fn sign_of_life(&mut self, now: Now, stage: Stage) {
        if let Some(running) = &mut self.running {
            running.patience.sign_of_life(now, stage);
        }
    }

    fn handle_accepted(&mut self, now: Now, prompt: Vec<TokenId>) {
        let is_first = self.log.prompt().is_none();
        if prompt.is_empty() {
            self.give_up(now, Ending::Faulty(Fault::NoPrompt));
            return;
        }
        if !self.log.settle_prompt(prompt) {
            self.give_up(now, Ending::Faulty(Fault::OtherPrompt));
            return;
        }
        if let Some(running) = &mut self.running {
            running.accepted = true;
        }
        self.sign_of_life(now, Stage::Waiting);
        if is_first {
            self.say(Output::Prompt { tokens: self.log.prompt_tokens() });
        }
    }

    fn is_accepted(&self) -> bool {
        self.running.as_ref().is_some_and(|r| r.accepted)
    }

    /// The rule: accepted only in the live epoch (checked before) and for the next index.
    fn handle_token(&mut self, now: Now, index: u32, id: TokenId, text: String) {
        if !self.is_accepted() {
            self.give_up(now, Ending::Faulty(Fault::NotAccepted));
        } else if index < self.log.next_index() {
            // Said before; the log has it.
        } else if index >= self.spec.max_tokens {
            self.give_up(now, Ending::Faulty(Fault::TooMany));
        } else if self.log.accept(index, id).is_err() {
            self.give_up(now, Ending::Faulty(Fault::Gap));
        } else {
            self.sign_of_life(now, Stage::Decoding);
            self.let_go();
            self.say(Output::Text { index, text });
            self.pass_on(now, index);
        }
    }

    fn handle_finished(&mut self, now: Now, reason: FinishReason, text: String) {
        if !self.is_accepted() {
            self.give_up(now, Ending::Faulty(Fault::NotAccepted));
            return;
        }
        let output_tokens = self.log.next_index();
        if !text.is_empty() {
            self.say(Output::Text { index: output_tokens, text });
        }
        self.end_assignment(now, Ending::Finished(reason));
        let prompt_tokens = self.log.prompt_tokens();
        self.conclude(Some(Output::Done { reason, prompt_tokens, output_tokens }));
    }

    pub(super) fn handle_failed(&mut self, now: Now, failure: JobFailure) {
        match failure {
            // A prompt that nobody has accepted yet and that the model cannot use: no other peer can either.
            JobFailure::BadInput(words) if self.log.prompt().is_none() => {
                self.end_assignment(now, Ending::Failed(JobFailure::BadInput(words.clone())));
                let kind = RequestErrorKind::BadInput(words);
                self.conclude(Some(Output::Failed(RequestError { kind, peers: Vec::new(), retry_after: None })));
            }
            JobFailure::BadInput(_) | JobFailure::PromptTooLong { .. } => {
                self.doubt_prompt();
                self.replace(now, Ending::Failed(failure));
            }
            JobFailure::Model(_)
            | JobFailure::Busy
            | JobFailure::Restarting
            | JobFailure::Engine(_)
            | JobFailure::Leaving => self.replace(now, Ending::Failed(failure)),
        }
    }

    /// A worker can do nothing with the ids that another one has made of the prompt. Whichever is wrong, as long as there is
    /// no answer the text itself can be sent again: one worker must not spoil a request for all others.
    fn doubt_prompt(&mut self) {
        let Some(running) = self.running.as_ref().filter(|running| !running.accepted) else { return };
        let worker = running.worker;
        if self.log.unsettle_prompt() {
            self.failures.pardon(worker);
            self.drop_standby(Dropped::Released);
        }
    }

    pub(super) fn handle_lost(&mut self, now: Now, epoch: Epoch, why: LossReason) {
        self.forget_left(epoch);
        if self.running.as_ref().is_some_and(|r| r.epoch == epoch) {
            self.replace(now, Ending::Lost(why));
        }
    }

    /// When the worker's silence is too long, and which that is. One that has said goodbye says no more tokens, and its context
    /// is good until its notice ends.
    pub(super) fn silence(&self) -> Option<(Now, Silence)> {
        let running = self.running.as_ref()?;
        let (deadline, silence) = running.patience.deadline(&self.limits);
        Some((running.leaving.map_or(deadline, |goodbye| deadline.max(goodbye.until)), silence))
    }

    /// Gives up a worker that was silent for too long; whether it was.
    pub(super) fn check_silence(&mut self, now: Now) -> bool {
        let Some((deadline, silence)) = self.silence() else { return false };
        let is_over = deadline <= now;
        if is_over {
            self.give_up(now, Ending::Silent(silence));
        }
        is_over
    }

    /// Ends an assignment whose worker may still be at it.
    fn give_up(&mut self, now: Now, how: Ending) {
        self.cancel();
        self.replace(now, how);
    }

    /// The assignment is over without an answer: the destination takes over, or another worker is looked for.
    fn replace(&mut self, now: Now, how: Ending) {
        // The search that led to a worker which refused goes on: its client waits no longer than if there were none.
        let refused = self.running.as_ref().filter(|running| !running.accepted && how.is_refusal());
        let since = refused.map_or(now, |running| running.searched_since);
        // Whoever was to pull from the one that left brought nothing: the next one makes the context from the ids.
        if !how.is_refusal() {
            self.let_go();
        }
        self.end_assignment(now, how);
        if self.standby.is_some() && self.may_begin_again() {
            self.take_over(now);
        } else {
            self.place_again(now, since);
        }
    }

    /// Its silence counts from now on.
    pub(super) fn renew_patience(&mut self, now: Now) {
        if let Some(running) = &mut self.running {
            running.patience.renew(now);
        }
    }

    /// Cancels the live assignment, if there is one.
    pub(super) fn stop_running(&mut self, now: Now, how: Ending) {
        self.cancel();
        self.end_assignment(now, how);
    }

    fn cancel(&mut self) {
        if let Some(running) = &self.running {
            let (worker, epoch) = (running.worker, running.epoch);
            self.say(Output::Cancel { worker, epoch });
        }
    }

    /// From here on no epoch is live.
    pub(super) fn end_assignment(&mut self, now: Now, how: Ending) {
        let Some(running) = self.running.take() else { return };
        // A worker that had said goodbye before it went did what it should.
        let how = match (how, running.leaving) {
            (
                Ending::Lost(_) | Ending::Silent(_) | Ending::Failed(JobFailure::Leaving),
                Some(Goodbye { cause, .. }),
            ) => Ending::Left(cause),
            (how, _) => how,
        };
        let is_failure =
            !matches!(how, Ending::Finished(_) | Ending::HandedOver | Ending::Requeued | Ending::ClientGone);
        if let Some(last) = self.story.last_mut() {
            last.ended = Some((now, how.clone()));
        }
        if is_failure {
            let brought_tokens = running.patience.is_decoding();
            self.failures.remember(now, running.worker, how, brought_tokens);
        }
    }
}
