//! The election and placements: inputs to the pure machines, their outputs carried out in order.

use std::time::Duration;

use idlewild_coordinator::election::{self, round};
use idlewild_protocol::{ControlMessage, ElectionMessage, PeerId, PlaceRequest, Term};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::Driver;
use super::placements::Route;
use crate::origin::{Answer, PlacementAsk};

/// How long the disk may take to keep a vote. A vote that is not kept is not given.
const KEEP_VOTE: Duration = Duration::from_secs(1);

impl Driver {
    /// Feeds the election and carries out what it says.
    pub(super) async fn elect(&mut self, input: election::Input) {
        self.election.handle(self.now(), input);
        let mut is_kept = true;
        while let Some(output) = self.election.poll_output() {
            match output {
                election::Output::Persist { term, voted_for } => is_kept = self.keep_vote(term, voted_for).await,
                election::Output::Send { to, message } if is_kept || !gives_a_vote(message) => {
                    self.tell(&[to], &ControlMessage::Election(message));
                }
                election::Output::Send { to, .. } => debug!(peer = %to.short(), "vote not given: it is not on disk"),
                election::Output::Leader { term, leader } => {
                    let name = leader.map(PeerId::short);
                    info!(round = round(term), leader = name.as_deref().unwrap_or("nobody"), "coordinator");
                    self.speak();
                }
            }
        }
        self.follow_leader();
    }

    /// The live view has changed, or a rank in it.
    pub(super) async fn elect_among_live(&mut self) {
        let peers = self.view.candidates(self.now());
        self.elect(election::Input::Live { peers }).await;
    }

    async fn keep_vote(&mut self, term: Term, voted_for: Option<PeerId>) -> bool {
        match timeout(KEEP_VOTE, self.store.save_election(term, voted_for)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                warn!(%error, "a vote cannot be kept, so it is not given");
                false
            }
            Err(_) => {
                warn!("the disk is too slow to keep a vote, so it is not given");
                false
            }
        }
    }

    /// A question of one of our own requests.
    pub(super) fn handle_placement(&mut self, ask: PlacementAsk) {
        let leader = self.election.leader().filter(|leader| *leader != self.me && self.is_connected(*leader));
        match self.placements.route(ask, leader) {
            Route::Here(request, reply) => {
                let answer = Answer { by: self.me, reply: self.place(self.me, &request) };
                // A request that has ended meanwhile needs no answer.
                reply.try_send(answer).ok();
            }
            Route::Leader(leader, request) => self.tell(&[leader], &ControlMessage::Place(request)),
        }
    }

    /// A question of another peer, which takes us for the coordinator.
    pub(super) fn handle_place(&mut self, from: PeerId, request: &PlaceRequest) {
        let reply = self.place(from, request);
        self.tell(&[from], &ControlMessage::Placed(reply));
    }

    fn place(&mut self, origin: PeerId, request: &PlaceRequest) -> idlewild_protocol::PlaceReply {
        // What we say of ourselves is as fresh as it can be.
        self.speak();
        let reply = self.planner.place(self.now(), &self.view, origin, request);
        debug!(request = %request.request, origin = %origin.short(), outcome = ?reply.outcome, "placed");
        reply
    }
}

/// A candidacy is a vote for oneself.
fn gives_a_vote(message: ElectionMessage) -> bool {
    match message {
        ElectionMessage::RequestVote(_) | ElectionMessage::Vote { granted: true, .. } => true,
        ElectionMessage::Vote { granted: false, .. }
        | ElectionMessage::Beat { .. }
        | ElectionMessage::HandOver { .. } => false,
    }
}
