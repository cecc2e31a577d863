//! A move that a person asked for: prepare, and hand over as soon as the destination keeps up. Pure: time is an argument.

use core::time::Duration;

use idlewild_coordinator::Now;
use idlewild_coordinator::cost::Overheads;
use idlewild_coordinator::ownership::{Limits, RequestMachine, StandbyReport, StandbyStage};
use idlewild_protocol::{Generation, Plan, PlanReason, PlanStep, PlanTerms};

use super::open_requests::Wish;

/// A lag that the destination makes up for while the source says its last tokens. It is never less than one or two: what
/// the destination evaluates just now, and what has just come. On a long context eight take a CPU as long as five steps.
const CLOSE_TOKENS: u32 = 4;

/// How long a destination that keeps up may come no closer until its lag is taken as it is. Over a link with delay it is never
/// less: what is on its way is more.
const CLOSE_WAIT: Duration = Duration::from_millis(300);

/// How long a destination that holds something may come no closer. A long context takes minutes, but all the while it does.
const NO_CLOSER_MAX: Duration = Duration::from_secs(20);

/// One such move, until it is done or has come to nothing. Coordinators' plans are not followed meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manual {
    wish: Wish,
    /// The last step that was proposed: none is proposed twice.
    proposed: Option<PlanStep>,
    /// The least lag of a destination that holds something, and since when.
    least_lag: Option<(u32, Now)>,
}

impl Manual {
    pub(super) fn new(wish: Wish) -> Self {
        Self { wish, proposed: None, least_lag: None }
    }

    /// What to propose now; none while there is nothing to do but wait. `decode_tps`: of the source.
    pub(super) fn next(&mut self, now: Now, decode_tps: f64, machine: &RequestMachine) -> Option<Plan> {
        let (epoch, _) = machine.live()?;
        let step = self.step(now, decode_tps, machine).filter(|step| self.proposed != Some(*step))?;
        self.proposed = Some(step);
        let latest = machine.latest_heard().unwrap_or_default();
        let generation = Generation { number: latest.number.saturating_add(1), ..latest };
        let request = machine.spec().request;
        Some(Plan { generation, request, epoch, step, terms: PlanTerms::unweighed(PlanReason::Asked) })
    }

    fn step(&mut self, now: Now, decode_tps: f64, machine: &RequestMachine) -> Option<PlanStep> {
        let Wish { to: destination, way, prepare_only } = self.wish;
        let Some(standby) = machine.standby().filter(|standby| standby.destination == destination) else {
            return Some(PlanStep::Prepare { destination, way });
        };
        match standby.stage {
            StandbyStage::Paused => Some(PlanStep::Hold { destination }),
            StandbyStage::Preparing | StandbyStage::Holding if !prepare_only => {
                self.hand_over(now, decode_tps, standby)
            }
            StandbyStage::Preparing | StandbyStage::Holding | StandbyStage::Committing { .. } => None,
        }
    }

    /// Close enough at once; close enough for a coordinator once it comes no closer; and after a while whatever can be had.
    fn hand_over(&mut self, now: Now, decode_tps: f64, standby: StandbyReport) -> Option<PlanStep> {
        let StandbyReport { destination, lag_tokens: lag, held_tokens, .. } = standby;
        let most = Limits::default().commit_lag_tokens;
        let keeps_up = Overheads::ASSUMED.lag_limit_tokens(decode_tps).min(f64::from(most));
        let as_close_for = self.as_close_for(now, lag, held_tokens);
        let is_close_enough = lag <= CLOSE_TOKENS || (f64::from(lag) <= keeps_up && as_close_for >= CLOSE_WAIT);
        let is_stuck = as_close_for >= NO_CLOSER_MAX;
        if is_close_enough || (is_stuck && lag <= most) {
            return Some(PlanStep::Commit { destination, way: self.wish.way });
        }
        is_stuck.then_some(PlanStep::Release { destination })
    }

    /// For how long a destination that holds something has come no closer. What one does that holds nothing, the machine has
    /// its own deadlines for.
    fn as_close_for(&mut self, now: Now, lag: u32, held_tokens: u32) -> Duration {
        if held_tokens == 0 {
            return Duration::ZERO;
        }
        let nearer = self.least_lag.filter(|(least, _)| *least <= lag);
        let (_, since) = *self.least_lag.insert(nearer.unwrap_or((lag, now)));
        now.saturating_sub(since)
    }

    /// Why its destination was released, if it was.
    pub(super) fn given_up(&self) -> Option<String> {
        let is_released = matches!(self.proposed, Some(PlanStep::Release { .. }));
        is_released.then(|| {
            format!("given up: the destination came no closer to the worker for {} s", NO_CLOSER_MAX.as_secs())
        })
    }

    /// Whether there is nothing left to do: it runs there, or what was begun there is gone.
    pub(super) fn is_over(&self, machine: &RequestMachine) -> bool {
        let is_there = machine.live().is_some_and(|(_, worker)| worker == self.wish.to);
        let is_prepared = machine.standby().is_some_and(|standby| standby.destination == self.wish.to);
        is_there || (self.proposed.is_some() && !is_prepared)
    }
}
