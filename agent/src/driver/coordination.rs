//! The election and placements: inputs to the pure machines, their outputs carried out in order.

use std::time::Duration;

use idlewild_coordinator::election::{self, round};
use idlewild_protocol::{ControlMessage, PeerId, PlaceRequest, Term};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::Driver;
use super::placements::Route;
use super::votes::Step;
use crate::origin::{Answer, PlacementAsk};

/// How long the disk may take to keep a vote. A vote that is not kept is not given.
const KEEP_VOTE: Duration = Duration::from_secs(1);

impl Driver {
    /// Feeds the election and carries out what it says.
    pub(super) fn elect(&mut self, input: election::Input) {
        self.election.handle(self.now(), input);
        while let Some(output) = self.election.poll_output() {
            self.votes.push(output);
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(step) = self.votes.next() {
            match step {
                Step::Keep(term, voted_for) => self.keep_vote(term, voted_for),
                Step::Send(to, message) => self.tell(&[to], &ControlMessage::Election(message)),
                Step::Leader(term, leader) => {
                    let name = leader.map(PeerId::short);
                    info!(round = round(term), leader = name.as_deref().unwrap_or("nobody"), "coordinator");
                    self.speak();
                }
            }
        }
        self.follow_leader();
    }

    /// The live view has changed, or a rank in it.
    pub(super) fn elect_among_live(&mut self) {
        let peers = self.view.candidates(self.now());
        self.elect(election::Input::Live { peers });
    }

    fn keep_vote(&self, term: Term, voted_for: Option<PeerId>) {
        let (store, votes) = (self.store.clone(), self.tasks.votes.clone());
        tokio::spawn(async move {
            let is_kept = match timeout(KEEP_VOTE, store.save_election(term, voted_for)).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    warn!(%error, "a vote cannot be kept, so it is not given");
                    false
                }
                Err(_) => {
                    warn!("the disk is too slow to keep a vote, so it is not given");
                    false
                }
            };
            // The driver is gone only when the agent is.
            votes.send(is_kept).await.ok();
        });
    }

    pub(super) fn handle_kept(&mut self, is_kept: bool) {
        self.votes.kept(is_kept);
        self.carry_out();
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
