//! A plan to run a request elsewhere that only waits where it is.

use idlewild_protocol::{PeerId, PeerTerms, PlaceOutcome, PlaceReply, Plan, PlanRefusal};

use crate::Now;
use crate::ownership::{Dropped, Ending, RequestMachine};

/// The number of a question that nobody asked: placements begin at 1.
const NO_ATTEMPT: u32 = 0;

impl RequestMachine {
    /// Takes a request out of a worker's queue and starts it at `worker`. What has begun stays: to begin again would throw
    /// away what is done.
    pub(super) fn place_elsewhere(
        &mut self,
        now: Now,
        worker: PeerId,
        fallback: Option<PeerId>,
        plan: &Plan,
    ) -> Result<(), PlanRefusal> {
        let Some(source) = self.source() else { return Err(PlanRefusal::SourceLeaving) };
        if !self.running.as_ref().is_some_and(|running| running.patience.is_waiting()) {
            return Err(PlanRefusal::Begun);
        }
        self.check_planned_start(source, worker)?;
        self.drop_standby(Dropped::Released);
        self.stop_running(now, Ending::Requeued);
        let reply = self.as_placed(plan, worker, fallback);
        self.start(now, worker, reply);
        Ok(())
    }

    /// Whether a plan may start the request at `worker` instead of `source`.
    pub(super) fn check_planned_start(&self, source: PeerId, worker: PeerId) -> Result<(), PlanRefusal> {
        if source == worker || self.failures.is_lasting(worker) {
            return Err(PlanRefusal::RuledOut);
        }
        // The other half is for workers that are lost.
        if self.assignments() >= self.limits.assignments_max / 2 {
            return Err(PlanRefusal::TooOften);
        }
        Ok(())
    }

    /// What the story tells of a worker that a plan chose.
    pub(super) fn as_placed(&self, plan: &Plan, worker: PeerId, fallback: Option<PeerId>) -> PlaceReply {
        let weighed = plan.terms.weighed.iter().map(|weighed| weighed.terms);
        let terms: Vec<PeerTerms> = weighed.chain(plan.terms.stay).collect();
        PlaceReply {
            request: self.spec.request,
            attempt: NO_ATTEMPT,
            term: plan.generation.term,
            outcome: PlaceOutcome::Run { worker, fallback },
            terms,
        }
    }
}
