//! What electing peers say to each other, and what it does.

use idlewild_protocol::{Ballot, ElectionMessage, PeerId, Term};

use super::role::{Role, Seat};
use super::rounds::{owns, round};
use crate::Now;
use crate::election::Election;

impl Election {
    /// Words of a peer outside the live view are ignored (a departed leader does not lead on by a late beat), and so
    /// are terms that are not their speaker's.
    pub(super) fn handle_message(&mut self, now: Now, from: PeerId, message: ElectionMessage) {
        if !self.live.contains(from) || from == self.me {
            return;
        }
        match message {
            ElectionMessage::Beat { term } if owns(from, term) => self.handle_beat(now, Seat { term, leader: from }),
            ElectionMessage::RequestVote(ballot) if ballot.candidate == from && owns(from, ballot.term) => {
                self.handle_request(now, ballot);
            }
            ElectionMessage::Vote { term, granted } => self.handle_vote(now, from, term, granted),
            ElectionMessage::HandOver { term, successor } => {
                self.handle_hand_over(now, Seat { term, leader: from }, successor);
            }
            ElectionMessage::Beat { .. } | ElectionMessage::RequestVote(_) => {}
        }
    }

    fn handle_beat(&mut self, now: Now, seat: Seat) {
        if !self.hear_of(now, seat.term) {
            return;
        }
        match &self.role {
            Role::Leading { term, .. } if seat < (Seat { term: *term, leader: self.me }) => {
                let term = *term;
                self.send(seat.leader, ElectionMessage::Beat { term });
            }
            Role::Following { seat: present, .. } if seat < *present => {}
            Role::Leading { .. }
            | Role::Following { .. }
            | Role::Looking { .. }
            | Role::Alone { .. }
            | Role::Standing(_) => self.follow(now, seat),
        }
    }

    fn handle_request(&mut self, now: Now, ballot: Ballot) {
        let is_believed = self.hear_of(now, ballot.term);
        if let Role::Leading { term, .. } = &self.role {
            let term = *term;
            self.send(ballot.candidate, ElectionMessage::Beat { term });
        }
        let granted = is_believed && !self.is_loyal_against(now, ballot.candidate) && self.may_promise(ballot);
        if granted {
            self.promise(ballot.term, ballot.candidate);
            self.yield_to_candidate(now);
        }
        let term = if granted { ballot.term } else { self.promised.max(ballot.term) };
        self.send(ballot.candidate, ElectionMessage::Vote { term, granted });
    }

    /// Whether a live leader other than the candidate is known, or is us.
    fn is_loyal_against(&self, now: Now, candidate: PeerId) -> bool {
        match &self.role {
            Role::Leading { .. } => true,
            Role::Following { seat, heard } => seat.leader != candidate && now < *heard + self.timing.loyalty,
            Role::Looking { .. } | Role::Alone { .. } | Role::Standing(_) => false,
        }
    }

    /// One vote a round; the same vote may be repeated.
    fn may_promise(&self, ballot: Ballot) -> bool {
        let is_repeated = ballot.term == self.promised && self.voted_for == Some(ballot.candidate);
        is_repeated || round(ballot.term) > round(self.promised)
    }

    fn handle_vote(&mut self, now: Now, from: PeerId, term: Term, granted: bool) {
        // A voter that is far on refuses all the same.
        self.hear_of(now, term);
        let Role::Standing(candidacy) = &mut self.role else { return };
        if granted && term == candidacy.term {
            candidacy.votes.insert(from);
        } else if !granted && term >= candidacy.term {
            candidacy.refusals.insert(from);
        }
        self.count(now);
    }

    fn handle_hand_over(&mut self, now: Now, old: Seat, successor: PeerId) {
        if matches!(&self.role, Role::Following { seat, .. } if *seat == old) {
            self.succeed(now, old.leader, successor);
        }
    }
}
