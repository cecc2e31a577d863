//! Questions of this peer's origins on their way to the coordinator, and its answers on their way back.

use std::collections::BTreeMap;

use idlewild_protocol::{PeerId, PlaceReply, PlaceRequest, RequestId};
use tokio::sync::mpsc;

use crate::origin::{Answer, PlacementAsk};

/// A question that waits for the coordinator.
#[derive(Debug)]
struct Asked {
    attempt: u32,
    leader: PeerId,
    reply: mpsc::Sender<Answer>,
}

/// What to do with a question.
#[derive(Debug)]
pub(super) enum Route {
    /// Send it to the coordinator; the answer finds its way by itself.
    Leader(PeerId, PlaceRequest),
    /// Answer it here.
    Here(PlaceRequest, mpsc::Sender<Answer>),
}

/// The questions under way. Bounded by the requests that may be open.
#[derive(Debug, Default)]
pub(super) struct Placements {
    asked: BTreeMap<RequestId, Asked>,
}

impl Placements {
    /// Where a question goes, with this `leader` visible (another peer, and connected).
    pub(super) fn route(&mut self, ask: PlacementAsk, leader: Option<PeerId>) -> Route {
        self.asked.retain(|_, asked| !asked.reply.is_closed());
        let PlacementAsk { request, alone, reply } = ask;
        match leader {
            Some(leader) if !alone => {
                let asked = Asked { attempt: request.attempt, leader, reply };
                self.asked.insert(request.request, asked);
                Route::Leader(leader, request)
            }
            Some(_) | None => Route::Here(request, reply),
        }
    }

    /// Takes a coordinator's answer; one that was not asked for, or not of that peer, is dropped.
    pub(super) fn answered(&mut self, by: PeerId, reply: PlaceReply) {
        let is_answer = |asked: &Asked| asked.leader == by && asked.attempt == reply.attempt;
        if self.asked.get(&reply.request).is_some_and(is_answer)
            && let Some(asked) = self.asked.remove(&reply.request)
        {
            // A request that has ended meanwhile needs no answer.
            asked.reply.try_send(Answer { by, reply }).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{ModelId, PlaceOutcome, Term};

    use super::*;

    const LEADER: PeerId = PeerId([1; 32]);
    const OTHER: PeerId = PeerId([2; 32]);

    fn question(attempt: u32) -> PlaceRequest {
        PlaceRequest {
            request: RequestId([7; 16]),
            attempt,
            model: ModelId([1; 32]),
            prompt_tokens: 1,
            expected_output_tokens: 1,
            done_tokens: 0,
            excluded: Vec::new(),
        }
    }

    fn answer(attempt: u32) -> PlaceReply {
        let outcome = PlaceOutcome::Nowhere;
        PlaceReply { request: RequestId([7; 16]), attempt, term: Term(1), outcome, terms: Vec::new() }
    }

    #[test]
    fn only_the_asked_coordinator_s_answer_to_the_latest_question_counts() {
        let mut placements = Placements::default();
        let (reply, mut answers) = mpsc::channel(4);
        let ask = |attempt| PlacementAsk { request: question(attempt), alone: false, reply: reply.clone() };
        assert!(matches!(placements.route(ask(1), Some(LEADER)), Route::Leader(LEADER, _)));
        assert!(matches!(placements.route(ask(2), Some(LEADER)), Route::Leader(LEADER, _)));
        placements.answered(OTHER, answer(2));
        placements.answered(LEADER, answer(1));
        assert!(answers.try_recv().is_err());
        placements.answered(LEADER, answer(2));
        assert_eq!(answers.try_recv().map(|answer| (answer.by, answer.reply.attempt)), Ok((LEADER, 2)));
        placements.answered(LEADER, answer(2));
        assert!(answers.try_recv().is_err());
    }

    #[test]
    fn a_question_without_a_visible_leader_or_asked_alone_is_answered_here() {
        let mut placements = Placements::default();
        let (reply, _answers) = mpsc::channel(4);
        let ask = |alone| PlacementAsk { request: question(1), alone, reply: reply.clone() };
        assert!(matches!(placements.route(ask(false), None), Route::Here(..)));
        assert!(matches!(placements.route(ask(true), Some(LEADER)), Route::Here(..)));
    }
}
