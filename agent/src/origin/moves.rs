//! The plans of a request, followed or not, for `idlewild explain`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use idlewild_coordinator::ownership::RequestMachine;
use idlewild_protocol::{Epoch, Generation, PeerId, Plan, PlanReason, PlanRefusal, Term};

use crate::api::wire::{MeasuredMove, MoveRecord};

/// Plans that are kept of one request; beyond it the oldest go.
const KEPT: usize = 64;

/// What was planned for a request, and what its moves took.
#[derive(Debug, Clone, Default)]
pub(super) struct MoveStory {
    /// The latest plans, in order.
    pub(super) plans: Vec<MoveRecord>,
    /// From the last token of the worker before to the first of this one, by whose assignment it is.
    pub(super) pauses: BTreeMap<Epoch, Duration>,
}

impl MoveStory {
    /// Who planned that `worker` takes over in this term, if a plan did.
    pub(super) fn planner_of(&self, term: Term, worker: PeerId) -> Option<PeerId> {
        let is_it =
            |plan: &&MoveRecord| plan.generation.term == term && plan.step.peer() == worker && plan.refused.is_none();
        self.plans.iter().rev().find(is_it).map(|plan| plan.decided_by)
    }
}

/// The latest plans of one request, and the pauses of all its moves, planned or not.
#[derive(Debug, Default)]
pub(super) struct MoveLog {
    records: VecDeque<MoveRecord>,
    /// Bounded by the assignments of one request.
    pauses: BTreeMap<Epoch, Duration>,
}

impl MoveLog {
    /// A plan is heard; it counts as followed unless [`Self::refuse`] says otherwise. `since_accepted`: since the request
    /// was.
    pub(super) fn hear(&mut self, since_accepted: Duration, by: PeerId, plan: &Plan, machine: &RequestMachine) {
        if self.records.len() == KEPT {
            self.records.pop_front();
        }
        let standby = machine.standby().filter(|standby| standby.destination == plan.step.peer());
        self.records.push_back(MoveRecord {
            at_ms: millis(since_accepted),
            decided_by: by,
            generation: plan.generation,
            epoch: plan.epoch,
            // Of a plan that came too late: the one that it was made for.
            from: machine.story().iter().find(|told| told.epoch == plan.epoch).map(|told| told.worker),
            step: plan.step,
            terms: plan.terms.clone(),
            lag_tokens: standby.map(|standby| standby.lag_tokens),
            refused: None,
            outcome: None,
            measured: None,
        });
    }

    /// The plan was not followed. Says who made it and for which reason, if it is on record.
    pub(super) fn refuse(&mut self, generation: Generation, why: PlanRefusal) -> Option<(PeerId, PlanReason)> {
        let at = self.records.iter().rposition(|record| record.generation == generation)?;
        self.records[at].refused = Some(why);
        let made = (self.records[at].decided_by, self.records[at].terms.reason);
        // A plan that is proposed again and again, and refused for the same reason, is told once.
        let is_repeated = at.checked_sub(1).is_some_and(|before| {
            let (before, this) = (&self.records[before], &self.records[at]);
            (before.step, before.refused) == (this.step, this.refused)
        });
        if is_repeated {
            self.records.remove(at - 1);
        }
        Some(made)
    }

    /// What came of the latest step about `peer` that was followed, in words.
    pub(super) fn came_to(&mut self, peer: PeerId, outcome: String) {
        if let Some(record) = self.followed(peer) {
            record.outcome = Some(outcome);
        }
    }

    /// The destination keeps up: how long that took since its preparation began.
    pub(super) fn ready(&mut self, since_accepted: Duration, peer: PeerId) {
        let Some(record) = self.followed(peer).filter(|record| record.step.way().is_some()) else { return };
        let measured = record.measured.get_or_insert_default();
        if measured.ready_ms.is_none() {
            measured.ready_ms = Some(millis(since_accepted).saturating_sub(record.at_ms));
        }
    }

    /// What that step took, as measured; figures that are none leave those before.
    pub(super) fn measured(&mut self, peer: PeerId, measured: MeasuredMove) {
        if let Some(record) = self.followed(peer) {
            let before = record.measured.unwrap_or_default();
            record.measured = Some(measured.over(before));
        }
    }

    fn followed(&mut self, peer: PeerId) -> Option<&mut MoveRecord> {
        self.records.iter_mut().rev().find(|record| record.step.peer() == peer && record.refused.is_none())
    }

    /// The first token of another worker has come, so long after the last one before it.
    pub(super) fn paused(&mut self, epoch: Epoch, peer: PeerId, pause: Duration) {
        self.pauses.insert(epoch, pause);
        self.measured(peer, MeasuredMove { stall_ms: Some(millis(pause)), ..MeasuredMove::default() });
    }

    /// All of it.
    pub(super) fn story(&self) -> MoveStory {
        MoveStory { plans: self.records.iter().cloned().collect(), pauses: self.pauses.clone() }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
