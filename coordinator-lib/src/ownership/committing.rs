//! From the source's last token to the destination's first: commit, abort, and the source that dies meanwhile.
//!
//! Whatever happens the log decides: the destination begins at the log's next index, under an epoch that the source's
//! late words are not of.

use idlewild_protocol::{Epoch, PeerId, Plan, PlanRefusal};

use super::standby::Standby;
use crate::Now;
use crate::ownership::{Ending, Output, RequestMachine, StandbyStage};

/// Tokens that a source says on for what its destination lacks, at most: it is not waited for any longer than without.
const LAG_TOKENS_MAX: u32 = 4;

impl RequestMachine {
    /// Tells the source to stop a few tokens from here. The epoch stays until the log has them.
    pub(super) fn commit(&mut self, now: Now, destination: PeerId, plan: Plan) -> Result<(), PlanRefusal> {
        let Some(worker) = self.source() else { return Err(PlanRefusal::SourceLeaving) };
        let lag_tokens = self.standby().map_or(0, |report| report.lag_tokens);
        let extra_tokens = lag_tokens.min(LAG_TOKENS_MAX);
        let index_after = |tokens: u32| self.log.next_index().saturating_add(tokens).saturating_sub(1);
        let least = index_after(self.limits.stop_after_tokens);
        // While the source says these, the destination makes what it lacks. An answer that ends soon leaves less room.
        let index = index_after(self.limits.stop_after_tokens.saturating_add(extra_tokens))
            .min(self.spec.max_tokens.saturating_sub(2))
            .max(least);
        let is_last_assignment = self.assignments() >= self.limits.assignments_max;
        let (stop_by, commit_lag_tokens) = (now + self.limits.stop, self.limits.commit_lag_tokens);
        let is_nearly_done = index.saturating_add(1) >= self.spec.max_tokens;
        let standby = self.standby_at(destination)?;
        if standby.is_committing() {
            return Err(PlanRefusal::OtherStep);
        }
        if lag_tokens > commit_lag_tokens {
            return Err(PlanRefusal::NotReady);
        }
        if is_nearly_done {
            return Err(PlanRefusal::NearlyDone);
        }
        if is_last_assignment {
            return Err(PlanRefusal::TooOften);
        }
        standby.owe_from(now);
        standby.commit(index, stop_by, plan);
        self.forward(now);
        let epoch = self.live_epoch();
        self.say(Output::StopAfter { worker, epoch, index });
        self.report_standby();
        Ok(())
    }

    /// Withdraws a commit: the source goes on, the destination stays what it was.
    pub(super) fn abort(&mut self, now: Now, destination: PeerId) -> Result<(), PlanRefusal> {
        if !self.standby_at(destination)?.is_committing() {
            return Err(PlanRefusal::OtherStep);
        }
        self.withdraw_stop(now);
        self.report_standby();
        Ok(())
    }

    /// Tells a source that was to stop to go on.
    pub(super) fn withdraw_stop(&mut self, now: Now) {
        let Some(standby) = self.standby.as_mut().filter(|standby| standby.is_committing()) else { return };
        standby.abort();
        if let Some((epoch, worker)) = self.live() {
            self.say(Output::GoOn { worker, epoch });
            // It may have stopped: its silence counts from here.
            self.renew_patience(now);
        }
    }

    /// A token was written: sends it on, and hands over if it was the last that the source was to say.
    pub(super) fn pass_on(&mut self, now: Now, index: u32) {
        self.forward(now);
        let is_last =
            |standby: &Standby| matches!(standby.stage, StandbyStage::Committing { stop_after } if index >= stop_after);
        if self.standby.as_ref().is_some_and(is_last) {
            // Its KV of the last tokens comes sooner than the destination makes it.
            self.leave_open(now, now + self.limits.stop, Ending::HandedOver);
            self.take_over(now);
        }
    }

    /// The source did not stop in time: the destination goes on from what there is, and what the source says later is of
    /// an epoch that is over.
    pub(super) fn stop_waiting(&mut self, now: Now) {
        self.stop_running(now, Ending::HandedOver);
        self.take_over(now);
    }

    /// Makes the destination the worker, wherever it is on its way: what it has is a head start. No epoch is live, and
    /// there is a destination.
    pub(super) fn take_over(&mut self, now: Now) {
        let Some(mut standby) = self.standby.take() else { return };
        standby.stage = StandbyStage::Holding;
        let Standby { destination, preparation, .. } = standby;
        let placed = self.as_placed(&standby.plan, destination, None);
        self.standby = Some(standby);
        self.forward(now);
        self.standby = None;
        let epoch = self.begin(now, destination, placed, Some(preparation));
        let from_index = self.log.next_index();
        self.say(Output::TakeOver { destination, preparation, epoch, from_index });
        self.report_standby();
    }

    fn live_epoch(&self) -> Epoch {
        self.live().map_or(Epoch(0), |(epoch, _)| epoch)
    }
}
