//! Plans, and a destination on its way: prepare, hold, pause, release. The source goes on all the while.

use idlewild_protocol::{Epoch, Generation, JobStart, PeerId, Plan, PlanReason, PlanRefusal, PlanStep, Pull, Way};

use super::standby::{Overclaimed, Standby};
use crate::Now;
use crate::ownership::{Dropped, Output, Preparation, RequestMachine, StandbyNews, StandbyStage};

impl RequestMachine {
    /// Follows the plan or says why not. One that is refused changes nothing.
    pub(super) fn handle_proposed(&mut self, now: Now, plan: Plan) {
        let generation = plan.generation;
        if let Err(why) = self.may_follow(&plan).and_then(|()| self.follow(now, plan)) {
            self.say(Output::Refused { generation, why });
        }
    }

    /// Whether it was made for what is, and is later than all that was.
    fn may_follow(&mut self, plan: &Plan) -> Result<(), PlanRefusal> {
        let live = self.live().map(|(epoch, _)| epoch);
        check_fresh(plan.generation, plan.epoch, live, self.latest)?;
        self.latest = Some(plan.generation);
        Ok(())
    }

    fn follow(&mut self, now: Now, plan: Plan) -> Result<(), PlanRefusal> {
        match plan.step {
            PlanStep::Prepare { destination, way } => self.prepare(now, destination, way, plan),
            PlanStep::Hold { destination } => self.keep(now, destination, StandbyStage::Holding),
            PlanStep::Pause { destination } => self.keep(now, destination, StandbyStage::Paused),
            PlanStep::Commit { destination, .. }
                if self.standby.is_none() && plan.terms.reason == PlanReason::Notice =>
            {
                self.begin_from_stopped(now, destination, &plan)
            }
            PlanStep::Commit { destination, .. } => self.commit(now, destination, plan),
            PlanStep::Abort { destination } => self.abort(now, destination),
            PlanStep::Release { destination } => {
                self.standby_at(destination)?;
                self.lose_standby(now, Dropped::Released);
                Ok(())
            }
            PlanStep::Replace { worker, fallback } => self.place_elsewhere(now, worker, fallback, &plan),
        }
    }

    /// The destination, if it is `peer`.
    pub(super) fn standby_at(&mut self, peer: PeerId) -> Result<&mut Standby, PlanRefusal> {
        self.standby.as_mut().filter(|standby| standby.destination == peer).ok_or(PlanRefusal::PreparesNothing)
    }

    fn prepare(&mut self, now: Now, destination: PeerId, way: Way, plan: Plan) -> Result<(), PlanRefusal> {
        let Some(source) = self.source() else { return Err(PlanRefusal::SourceLeaving) };
        if self.log.prompt().is_none() {
            return Err(PlanRefusal::NotAccepted);
        }
        if source == destination || self.failures.is_lasting(destination) {
            return Err(PlanRefusal::RuledOut);
        }
        if self.standby_at(destination).is_ok() {
            return Err(PlanRefusal::PreparesAlready);
        }
        if self.preparations >= self.limits.preparations_max {
            return Err(PlanRefusal::TooOften);
        }
        self.lose_standby(now, Dropped::Released);
        self.preparations += 1;
        let preparation = Preparation(self.preparations);
        self.standby = Some(Standby::new(now, preparation, destination, way, self.log.next_index(), plan));
        let pull = way.part().map(|part| Pull { holder: source, part });
        let context = Box::new(JobStart { pull, ..self.spec.context(&self.log) });
        self.say(Output::Prepare { destination, preparation, context });
        self.report_standby();
        Ok(())
    }

    fn keep(&mut self, now: Now, destination: PeerId, stage: StandbyStage) -> Result<(), PlanRefusal> {
        let standby = self.standby_at(destination)?;
        if standby.is_committing() {
            return Err(PlanRefusal::OtherStep);
        }
        standby.stage = stage;
        standby.owe_from(now);
        let (preparation, warm) = (standby.preparation, stage != StandbyStage::Paused);
        self.say(Output::Keep { destination, preparation, warm });
        self.forward(now);
        self.report_standby();
        Ok(())
    }

    /// Sends the destination what the log has and it was not sent, unless it is paused.
    pub(super) fn forward(&mut self, now: Now) {
        let sent_tokens = self.sent_tokens();
        let Some(standby) = self.standby.as_mut().filter(|s| s.stage != StandbyStage::Paused) else { return };
        let from_index = standby.forwarded;
        let ids = self.log.generated().get(from_index as usize..).unwrap_or_default().to_vec();
        if ids.is_empty() {
            return;
        }
        if standby.held_tokens >= sent_tokens {
            standby.owe_from(now);
        }
        standby.forwarded = self.log.next_index();
        let (destination, preparation) = (standby.destination, standby.preparation);
        self.say(Output::Forward { destination, preparation, from_index, ids });
    }

    /// Tokens of the context that the destination was sent.
    fn sent_tokens(&self) -> u32 {
        let forwarded = self.standby.as_ref().map_or(0, |standby| standby.forwarded);
        self.log.prompt_tokens().saturating_add(forwarded)
    }

    pub(super) fn handle_standby(&mut self, now: Now, preparation: Preparation, news: StandbyNews) {
        let is_present = self.standby.as_ref().is_some_and(|standby| standby.preparation == preparation);
        if !is_present {
            self.hear_late(now, preparation, news);
            return;
        }
        match news {
            StandbyNews::Progress { held_tokens } => self.progress(now, held_tokens),
            StandbyNews::Alive => {
                if let Some(standby) = &mut self.standby {
                    standby.alive(now);
                }
            }
            StandbyNews::Failed(failure) => self.lose_standby(now, Dropped::Failed(failure)),
            StandbyNews::Leaving(cause) => self.lose_standby(now, Dropped::Leaving(cause)),
            StandbyNews::Lost(why) => self.lose_standby(now, Dropped::Lost(why)),
        }
    }

    /// Words from a preparation that has become the live assignment, said before it knew.
    fn hear_late(&mut self, now: Now, preparation: Preparation, news: StandbyNews) {
        let Some(running) = self.running.as_ref().filter(|r| r.preparation == Some(preparation)) else { return };
        let epoch = running.epoch;
        match news {
            StandbyNews::Progress { .. } | StandbyNews::Alive => {}
            StandbyNews::Failed(failure) => self.handle_failed(now, failure),
            StandbyNews::Leaving(cause) => self.handle_leaving(now, cause, 0),
            StandbyNews::Lost(why) => self.handle_lost(now, epoch, why),
        }
    }

    fn progress(&mut self, now: Now, held_tokens: u32) {
        let sent_tokens = self.sent_tokens();
        let Some(standby) = &mut self.standby else { return };
        match standby.progress(now, held_tokens, sent_tokens) {
            Ok(true) => self.report_standby(),
            Ok(false) => {}
            Err(Overclaimed) => self.lose_standby(now, Dropped::Faulty),
        }
    }

    /// The destination is of no use any more: the request stays where it is, and a source that was to stop goes on.
    pub(super) fn lose_standby(&mut self, now: Now, why: Dropped) {
        self.withdraw_stop(now);
        self.drop_standby(why);
    }

    /// Forgets the destination.
    pub(super) fn drop_standby(&mut self, why: Dropped) {
        let Some(Standby { destination, preparation, .. }) = self.standby.take() else { return };
        self.say(Output::Release { destination, preparation, why });
        self.report_standby();
    }

    pub(super) fn report_standby(&mut self) {
        let report = self.standby();
        self.say(Output::Standby(report));
    }

    pub(super) fn standby_timeout(&self) -> Option<Now> {
        let standby = self.standby.as_ref()?;
        let silence = standby.deadline(&self.limits, self.sent_tokens()).map(|(at, _)| at);
        [standby.stop_by, silence].into_iter().flatten().min()
    }

    /// Gives up what took too long in a planned move; whether anything did. A source that does not stop comes first:
    /// the destination may be silent just because it waits.
    pub(super) fn check_standby(&mut self, now: Now) -> bool {
        let sent_tokens = self.sent_tokens();
        let Some(standby) = &self.standby else { return false };
        if standby.stop_by.is_some_and(|at| at <= now) {
            self.stop_waiting(now);
            return true;
        }
        let overdue = standby.deadline(&self.limits, sent_tokens).filter(|(at, _)| *at <= now);
        let Some((_, why)) = overdue else { return false };
        self.lose_standby(now, why);
        true
    }
}

/// Whether a plan of this generation, made for `epoch`, may be followed by a request whose live assignment is `live` and
/// which has heard plans up to `heard`.
fn check_fresh(
    generation: Generation,
    epoch: Epoch,
    live: Option<Epoch>,
    heard: Option<Generation>,
) -> Result<(), PlanRefusal> {
    if live != Some(epoch) {
        return Err(PlanRefusal::OtherEpoch);
    }
    if heard.is_some_and(|heard| generation <= heard) {
        return Err(PlanRefusal::Overtaken);
    }
    Ok(())
}
