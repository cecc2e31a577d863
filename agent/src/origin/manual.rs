//! A move that a person asked for: prepare, and hand over as soon as the destination keeps up.

use idlewild_coordinator::ownership::{RequestMachine, StandbyStage};
use idlewild_protocol::{Generation, Plan, PlanReason, PlanStep, PlanTerms};

use super::open_requests::Wish;

/// A lag that the destination makes up for while the source says its last tokens: a batch of twice as many takes a CPU longer
/// than that.
const HAND_OVER_TOKENS: u32 = 8;

/// One such move, until it is done or has come to nothing. Coordinators' plans are not followed meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manual {
    wish: Wish,
    /// The last step that was proposed: none is proposed twice.
    proposed: Option<PlanStep>,
}

impl Manual {
    pub(super) fn new(wish: Wish) -> Self {
        Self { wish, proposed: None }
    }

    /// What to propose now; none while there is nothing to do but wait.
    pub(super) fn next(&mut self, machine: &RequestMachine) -> Option<Plan> {
        let (epoch, _) = machine.live()?;
        let step = self.step(machine).filter(|step| self.proposed != Some(*step))?;
        self.proposed = Some(step);
        let latest = machine.latest_heard().unwrap_or_default();
        let generation = Generation { number: latest.number.saturating_add(1), ..latest };
        let request = machine.spec().request;
        Some(Plan { generation, request, epoch, step, terms: PlanTerms::unweighed(PlanReason::Asked) })
    }

    fn step(&self, machine: &RequestMachine) -> Option<PlanStep> {
        let Wish { to: destination, way, prepare_only } = self.wish;
        let Some(standby) = machine.standby().filter(|standby| standby.destination == destination) else {
            return Some(PlanStep::Prepare { destination, way });
        };
        match standby.stage {
            StandbyStage::Paused => Some(PlanStep::Hold { destination }),
            StandbyStage::Preparing | StandbyStage::Holding
                if standby.lag_tokens <= HAND_OVER_TOKENS && !prepare_only =>
            {
                Some(PlanStep::Commit { destination, way })
            }
            StandbyStage::Preparing | StandbyStage::Holding | StandbyStage::Committing { .. } => None,
        }
    }

    /// Whether there is nothing left to do: it runs there, or what was begun there is gone.
    pub(super) fn is_over(&self, machine: &RequestMachine) -> bool {
        let is_there = machine.live().is_some_and(|(_, worker)| worker == self.wish.to);
        let is_prepared = machine.standby().is_some_and(|standby| standby.destination == self.wish.to);
        is_there || (self.proposed.is_some() && !is_prepared)
    }
}
