//! A request's record, drawn from its machine: what `idlewild explain` shows.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idlewild_coordinator::ownership::{Assignment, Ending, LossReason, RequestMachine};
use idlewild_protocol::{DepartureCause, FinishReason, PeerId, PlaceOutcome};

use super::moves::MoveStory;
use crate::api::wire::{AssignmentReply, ExplainReply, MeasuredMove, StandbyReply};

/// What the machine does not know of its request.
#[derive(Debug)]
pub(super) struct Particulars {
    pub(super) me: PeerId,
    pub(super) model_name: String,
    pub(super) accepted_s: u64,
    pub(super) began: Duration,
    pub(super) first_token: Option<Duration>,
    /// Who answered which question about it. Bounded by the assignments and questions of one request.
    pub(super) deciders: BTreeMap<u32, PeerId>,
    pub(super) ended: Option<Duration>,
    pub(super) finish: Option<FinishReason>,
    pub(super) error: Option<String>,
}

impl Particulars {
    pub(super) fn new(me: PeerId, model_name: String, began: Duration) -> Self {
        Self {
            me,
            model_name,
            accepted_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            began,
            first_token: None,
            deciders: BTreeMap::new(),
            ended: None,
            finish: None,
            error: None,
        }
    }

    /// The record as of now.
    pub(super) fn record(&self, machine: &RequestMachine, moves: MoveStory) -> ExplainReply {
        let spec = machine.spec();
        let log = machine.log();
        ExplainReply {
            request: spec.request,
            model: spec.model,
            model_name: self.model_name.clone(),
            accepted_s: self.accepted_s,
            took_ms: self.ended.map(|at| self.since_began_ms(at)),
            first_token_ms: self.first_token.map(|at| self.since_began_ms(at)),
            prompt_tokens: log.prompt().is_some().then(|| log.prompt_tokens()),
            output_tokens: log.next_index(),
            finish: self.finish,
            error: self.error.clone(),
            standby: machine.standby().map(|standby| StandbyReply {
                peer: standby.destination,
                held_tokens: standby.held_tokens,
                lag_tokens: standby.lag_tokens,
            }),
            assignments: machine.story().iter().map(|assignment| self.assignment(assignment, &moves)).collect(),
            moves: moves.plans,
        }
    }

    fn since_began_ms(&self, at: Duration) -> u64 {
        u64::try_from(at.saturating_sub(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    fn assignment(&self, assignment: &Assignment, moves: &MoveStory) -> AssignmentReply {
        let plan = &assignment.plan;
        let fallback = match plan.outcome {
            PlaceOutcome::Run { fallback, .. } => fallback,
            PlaceOutcome::Nowhere => None,
        };
        let asked = self.deciders.get(&plan.attempt).copied();
        let planned = moves.planner_of(plan.term, assignment.worker);
        AssignmentReply {
            epoch: assignment.epoch,
            worker: assignment.worker,
            fallback,
            decided_by: asked.or(planned).unwrap_or(self.me),
            term: plan.term,
            from_index: assignment.from_index,
            ended: assignment.ended.as_ref().map(|(_, how)| how.to_string()),
            cause: assignment.ended.as_ref().and_then(|(_, how)| cause_of(how)),
            terms: plan.terms.clone(),
            measured: measured(assignment, moves.pauses.get(&assignment.epoch).copied()),
        }
    }
}

/// What a worker that is not the first took.
fn measured(assignment: &Assignment, pause: Option<Duration>) -> Option<MeasuredMove> {
    let stall_ms = pause.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    let pulled = assignment.pulled;
    let measured = MeasuredMove {
        stall_ms,
        bytes: pulled.map(|pulled| pulled.bytes),
        pulled_tokens: pulled.map(|pulled| pulled.tokens),
        ..MeasuredMove::default()
    };
    (measured != MeasuredMove::default()).then_some(measured)
}

fn cause_of(how: &Ending) -> Option<DepartureCause> {
    match how {
        Ending::Left(cause) | Ending::Lost(LossReason::Goodbye(cause)) => Some(*cause),
        Ending::Lost(_)
        | Ending::Finished(_)
        | Ending::Failed(_)
        | Ending::Silent(_)
        | Ending::Faulty(_)
        | Ending::HandedOver
        | Ending::Requeued
        | Ending::ClientGone => None,
    }
}
