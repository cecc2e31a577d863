//! A worker that says goodbye, or has handed over: who goes on, and what its KV cache is still good for meanwhile.

use core::time::Duration;

use idlewild_protocol::{DepartureCause, Epoch, PeerId, Plan, PlanRefusal, Pull, PullPart};

use crate::Now;
use crate::ownership::{Ending, Output, RequestMachine};

/// The longest notice that is believed: nobody waits longer for a context that leaves.
const NOTICE_MAX: Duration = Duration::from_mins(1);

/// How long a worker is left alone that was told to stop, so that its context can be pulled. It gives itself up after 30 s
/// without a word.
const STOPPED_KEPT: Duration = Duration::from_secs(20);

/// A worker's last words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Goodbye {
    pub(super) cause: DepartureCause,
    /// When it is gone.
    pub(super) until: Now,
}

/// A worker whose assignment is over and whose stream is left open: the next one may pull the KV cache from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) worker: PeerId,
    pub(super) epoch: Epoch,
    until: Now,
    /// Others have said that it goes, and it has not yet: its own goodbye names the cause.
    owes_goodbye: bool,
}

impl RequestMachine {
    /// The destination takes over, if there is one; one that would have to make all of the context itself begins anew, since it
    /// can pull it while the notice lasts. Else another worker is looked for at once; until one is found the
    /// epoch stays live: tokens that still come are taken. Only the first goodbye counts: a notice excuses silence, and one
    /// that could be given again and again would excuse it for ever.
    pub(super) fn handle_leaving(&mut self, now: Now, cause: DepartureCause, notice_ms: u32) {
        let notice = Duration::from_millis(u64::from(notice_ms)).min(NOTICE_MAX);
        let goodbye = Goodbye { cause, until: now + notice };
        let Some(running) = self.running.as_mut().filter(|running| running.leaving.is_none()) else { return };
        running.leaving = Some(goodbye);
        match self.standby.as_ref().filter(|_| self.may_begin_again()) {
            None => self.search(now),
            Some(standby) if standby.makes_all() && self.is_kept_until(goodbye.until, now) => {
                let destination = standby.destination;
                let placed = self.as_placed(&standby.plan, destination, None);
                self.start(now, destination, placed);
            }
            Some(_) => {
                self.replace_leaving(now);
                self.take_over(now);
            }
        }
    }

    /// Whether a worker that is gone then has a context that another one can pull.
    fn is_kept_until(&self, until: Now, now: Now) -> bool {
        until > now && self.log.prompt().is_some()
    }

    /// Takes the live epoch from a worker that said goodbye. Where its notice lasts it is not cancelled yet.
    pub(super) fn replace_leaving(&mut self, now: Now) {
        let Some(Goodbye { cause, until }) = self.running.as_ref().and_then(|running| running.leaving) else { return };
        if self.is_kept_until(until, now) {
            self.leave_open(now, until, Ending::Left(cause));
        } else {
            self.let_go();
            self.stop_running(now, Ending::Left(cause));
        }
    }

    /// Takes the live epoch from a worker that computes no more, and leaves its stream open until then, so that the next one can
    /// pull the KV cache.
    pub(super) fn leave_open(&mut self, now: Now, until: Now, how: Ending) {
        let Some(running) = &self.running else { return };
        let (worker, epoch) = (running.worker, running.epoch);
        self.let_go();
        self.left = Some(Left { worker, epoch, until, owes_goodbye: false });
        self.end_assignment(now, how);
    }

    /// Whoever plans has heard that the source computes no more, and its goodbye has not come here: another worker begins, and
    /// pulls the KV cache while it is still there.
    pub(super) fn begin_from_stopped(&mut self, now: Now, destination: PeerId, plan: &Plan) -> Result<(), PlanRefusal> {
        let Some((epoch, source)) = self.live().filter(|_| self.source().is_some()) else {
            return Err(PlanRefusal::SourceLeaving);
        };
        if self.log.prompt().is_none() {
            return Err(PlanRefusal::NotAccepted);
        }
        self.check_planned_start(source, destination)?;
        if self.log.next_index().saturating_add(self.limits.stop_after_tokens) >= self.spec.max_tokens {
            return Err(PlanRefusal::NearlyDone);
        }
        // What it has heard may be wrong: two that draw would be one too many.
        self.say(Output::StopAfter { worker: source, epoch, index: self.log.next_index() });
        let placed = self.as_placed(plan, destination, None);
        self.leave_open(now, now + STOPPED_KEPT, Ending::HandedOver);
        self.left = self.left.map(|left| Left { owes_goodbye: true, ..left });
        self.start(now, destination, placed);
        Ok(())
    }

    /// A goodbye that comes after the word of whoever plans: the story tells why the worker went.
    pub(super) fn hear_late_goodbye(&mut self, epoch: Epoch, cause: DepartureCause) {
        let Some(left) = self.left.as_mut().filter(|left| left.epoch == epoch && left.owes_goodbye) else { return };
        left.owes_goodbye = false;
        let ended = self.story.iter_mut().rfind(|last| last.epoch == epoch).and_then(|last| last.ended.as_mut());
        if let Some((_, how)) = ended {
            *how = Ending::Left(cause);
        }
    }

    /// Where the next worker can have the KV cache from, beside making it from the ids.
    pub(super) fn pull_from_left(&self, now: Now) -> Option<Pull> {
        let left = self.left.filter(|left| left.until > now)?;
        Some(Pull { holder: left.worker, part: PullPart::Rest })
    }

    /// Closes the stream of the worker that left: the next one needs it no more, or it is gone.
    pub(super) fn let_go(&mut self) {
        if let Some(Left { worker, epoch, .. }) = self.left.take() {
            self.say(Output::Cancel { worker, epoch });
        }
    }

    /// The stream of `epoch` is no more: nothing is left to close.
    pub(super) fn forget_left(&mut self, epoch: Epoch) {
        self.left = self.left.filter(|left| left.epoch != epoch);
    }

    pub(super) fn left_timeout(&self) -> Option<Now> {
        self.left.map(|left| left.until)
    }

    /// Lets go of a worker whose notice has ended; whether there was one.
    pub(super) fn check_left(&mut self, now: Now) -> bool {
        let is_over = self.left.is_some_and(|left| left.until <= now);
        if is_over {
            self.let_go();
        }
        is_over
    }
}
