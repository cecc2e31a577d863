//! The election machine: inputs, outputs, timers, and the steps from role to role.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use idlewild_protocol::{Ballot, ElectionMessage, PeerId, Term};

use super::ranking::LiveView;
use super::role::{Candidacy, Role, Seat};
use super::rounds::{Heard, round, term_of};
use crate::Now;
use crate::election::{Candidate, Timing};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A live peer said this.
    Peer {
        /// Who.
        from: PeerId,
        /// What.
        message: ElectionMessage,
    },
    /// The live view changed, or a rank in it: every peer that can be reached, ourselves included.
    Live {
        /// In any order.
        peers: Vec<Candidate>,
    },
    /// Time has passed: [`Election::poll_timeout`] is due.
    Tick,
    /// We are about to go: hand over, and stand no more.
    Leaving,
    /// We are here to stay after all (a departure was called off, the machine woke up).
    Staying,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Tell a peer.
    Send {
        /// Whom.
        to: PeerId,
        /// What.
        message: ElectionMessage,
    },
    /// For the digest, the log, and to know whom to ask: who leads now, as far as we know.
    Leader {
        /// The term; of the last leader where none is known now. Round 0: nobody voted, we are alone.
        term: Term,
        /// Who.
        leader: Option<PeerId>,
    },
    /// Write this to the disk before any output that follows it is carried out.
    Persist {
        /// Of the vote.
        term: Term,
        /// For whom.
        voted_for: Option<PeerId>,
    },
}

/// One peer's part in the election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    pub(super) me: PeerId,
    pub(super) timing: Timing,
    jitter: u64,
    /// The term of our latest vote, on the disk.
    pub(super) promised: Term,
    /// Who has that vote.
    pub(super) voted_for: Option<PeerId>,
    /// The rounds that others have reached; the next candidacy goes beyond them.
    heard: Heard,
    pub(super) live: LiveView,
    /// The leader that fell silent or left: it holds nobody's candidacy back.
    suspect: Option<PeerId>,
    /// Candidacies that failed since a leader was known.
    tries: u32,
    leaving: bool,
    pub(super) role: Role,
    told: (Term, Option<PeerId>),
    outputs: VecDeque<Output>,
}

impl Election {
    /// With the vote that the disk has (term 0 and nobody on a first start). It stands only after a first
    /// [`Input::Live`].
    pub fn new(me: PeerId, term: Term, voted_for: Option<PeerId>, seed: u64) -> Self {
        Self::with_timing(me, term, voted_for, seed, Timing::default())
    }

    /// The same with other timers.
    pub fn with_timing(me: PeerId, term: Term, voted_for: Option<PeerId>, seed: u64, timing: Timing) -> Self {
        Self {
            me,
            timing,
            jitter: seed,
            promised: term,
            voted_for,
            heard: Heard::from_disk(round(term)),
            live: LiveView::default(),
            suspect: None,
            tries: 0,
            leaving: false,
            role: Role::Looking { stand_at: None },
            told: (Term(0), None),
            outputs: VecDeque::new(),
        }
    }

    /// Takes in what happened. Timers are looked at on [`Input::Tick`] only.
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Peer { from, message } => self.handle_message(now, from, message),
            Input::Live { peers } => self.handle_live(now, &peers),
            Input::Tick => self.handle_tick(now),
            Input::Leaving => self.handle_leaving(),
            Input::Staying => self.handle_staying(now),
        }
    }

    /// The next thing to do; none when all is done for now.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to tick next.
    pub fn poll_timeout(&self) -> Option<Now> {
        self.role.timeout(&self.timing)
    }

    /// Who leads, as last told by [`Output::Leader`].
    pub fn leader(&self) -> Option<PeerId> {
        self.told.1
    }

    /// Of that leader, or of the last one.
    pub fn term(&self) -> Term {
        self.told.0
    }

    fn handle_live(&mut self, now: Now, peers: &[Candidate]) {
        let before = core::mem::replace(&mut self.live, LiveView::new(self.me, peers));
        match &self.role {
            Role::Looking { stand_at: None } => self.look(now, self.timing.acquaintance),
            Role::Looking { .. } if self.live.is_solitary() => self.look(now, Duration::ZERO),
            Role::Alone { stand_at } => {
                let stand_at = if self.live.is_solitary() {
                    None
                } else {
                    Some(stand_at.unwrap_or(now + self.timing.acquaintance + self.rank_delay()))
                };
                self.role = Role::Alone { stand_at };
            }
            Role::Following { seat, .. } if !self.live.contains(seat.leader) => self.lose_leader(now),
            Role::Standing(_) => self.count(now),
            Role::Leading { term, .. } => {
                let term = *term;
                let newcomers: Vec<PeerId> = self.live.others(self.me).filter(|p| !before.contains(*p)).collect();
                self.send_all(newcomers, ElectionMessage::Beat { term });
            }
            Role::Looking { .. } | Role::Following { .. } => {}
        }
    }

    fn handle_tick(&mut self, now: Now) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        match &self.role {
            Role::Looking { .. } | Role::Alone { .. } => self.stand(now),
            Role::Standing(_) => self.give_up_candidacy(now),
            Role::Following { .. } => self.lose_leader(now),
            Role::Leading { term, .. } => {
                let term = *term;
                self.broadcast(ElectionMessage::Beat { term });
                self.role = Role::Leading { term, next_beat: now + self.timing.beat };
            }
        }
    }

    fn handle_leaving(&mut self) {
        self.leaving = true;
        match &self.role {
            Role::Following { .. } => {}
            Role::Leading { term, .. } => {
                let term = *term;
                if let Some(successor) = self.live.best_besides(self.me) {
                    self.broadcast(ElectionMessage::HandOver { term, successor });
                }
                self.stand_aside();
            }
            Role::Looking { .. } | Role::Alone { .. } | Role::Standing(_) => self.stand_aside(),
        }
    }

    fn stand_aside(&mut self) {
        self.role = Role::Looking { stand_at: None };
        self.tell(self.told.0, None);
    }

    fn handle_staying(&mut self, now: Now) {
        self.leaving = false;
        if self.role == (Role::Looking { stand_at: None }) {
            self.look(now, self.timing.acquaintance);
        }
    }

    /// The leader fell silent or left.
    fn lose_leader(&mut self, now: Now) {
        if let Role::Following { seat, .. } = &self.role {
            self.suspect = Some(seat.leader);
        }
        self.look(now, Duration::ZERO);
    }

    /// No leader is known: stands after this delay and what the rank adds, or leads itself if nobody else is live.
    pub(super) fn look(&mut self, now: Now, delay: Duration) {
        let has_view = self.live.len() > 0;
        if self.leaving || !has_view {
            self.stand_aside();
        } else if self.live.is_solitary() {
            self.role = Role::Alone { stand_at: None };
            self.tell(term_of(0, self.me), Some(self.me));
        } else {
            let stand_at = Some(now + delay + self.rank_delay());
            self.role = Role::Looking { stand_at };
            self.tell(self.told.0, None);
        }
    }

    /// The old leader has gone and named who comes next.
    pub(super) fn succeed(&mut self, now: Now, old: PeerId, successor: PeerId) {
        self.suspect = Some(old);
        if successor == self.me && !self.leaving {
            self.stand(now);
        } else {
            self.look(now, self.timing.hand_over);
        }
    }

    /// Asks the live view for its votes, in a round that nobody has heard of. With all rounds spent nobody stands: a
    /// second vote in the last one would be worse than no coordinator.
    fn stand(&mut self, now: Now) {
        let Some(next) = round(self.promised).max(self.heard.highest).checked_add(1) else {
            self.stand_aside();
            return;
        };
        let term = term_of(next, self.me);
        self.heard.highest = next;
        self.promise(term, self.me);
        let votes = BTreeSet::from([self.me]);
        let until = now + self.timing.vote;
        self.role = Role::Standing(Candidacy { term, votes, refusals: BTreeSet::new(), until });
        self.broadcast(ElectionMessage::RequestVote(Ballot { term, candidate: self.me }));
        self.count(now);
    }

    /// Whether the candidacy is decided. Votes count that come from the live view as it is now.
    pub(super) fn count(&mut self, now: Now) {
        let Role::Standing(candidacy) = &self.role else { return };
        let live = |peers: &BTreeSet<PeerId>| peers.iter().filter(|p| self.live.contains(**p)).count();
        let needed = self.live.majority();
        if live(&candidacy.votes) >= needed {
            let term = candidacy.term;
            self.lead(now, term);
        } else if self.live.len() - live(&candidacy.refusals) < needed {
            self.give_up_candidacy(now);
        }
    }

    fn lead(&mut self, now: Now, term: Term) {
        self.settle();
        self.role = Role::Leading { term, next_beat: now + self.timing.beat };
        self.broadcast(ElectionMessage::Beat { term });
        self.tell(term, Some(self.me));
    }

    pub(super) fn follow(&mut self, now: Now, seat: Seat) {
        self.settle();
        self.role = Role::Following { seat, heard: now };
        self.tell(seat.term, Some(seat.leader));
    }

    fn settle(&mut self) {
        self.suspect = None;
        self.tries = 0;
    }

    fn give_up_candidacy(&mut self, now: Now) {
        let pause = (self.timing.retry * (1 << self.tries.min(10))).min(self.timing.retry_max);
        self.tries = self.tries.saturating_add(1);
        let spread = self.random_up_to(pause);
        self.look(now, pause + spread);
    }

    /// Somebody else stands: leave them the time that a vote takes.
    pub(super) fn yield_to_candidate(&mut self, now: Now) {
        let later = now + self.timing.vote + self.rank_delay();
        match &mut self.role {
            Role::Looking { stand_at: Some(at) } | Role::Alone { stand_at: Some(at) } => *at = later.max(*at),
            Role::Standing(_) => self.role = Role::Looking { stand_at: Some(later) },
            Role::Looking { stand_at: None }
            | Role::Alone { stand_at: None }
            | Role::Following { .. }
            | Role::Leading { .. } => {}
        }
    }

    /// Votes, on the disk first.
    pub(super) fn promise(&mut self, term: Term, candidate: PeerId) {
        if (self.promised, self.voted_for) != (term, Some(candidate)) {
            self.promised = term;
            self.voted_for = Some(candidate);
            self.outputs.push_back(Output::Persist { term, voted_for: Some(candidate) });
        }
    }

    /// Rounds that others have reached are not stood in. Whether the term is to be believed: one that is too far on has
    /// to be heard again.
    pub(super) fn hear_of(&mut self, now: Now, term: Term) -> bool {
        self.heard.hear(now, self.timing.beat, round(term))
    }

    fn rank_delay(&mut self) -> Duration {
        let rank = u32::try_from(self.live.rank(self.me, self.suspect)).unwrap_or(u32::MAX);
        let spread = self.random_up_to(self.timing.jitter);
        self.timing.rank_step * rank.min(self.timing.rank_steps_max) + spread
    }

    /// `SplitMix64`: only to spread candidacies that would else coincide.
    fn random_up_to(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        if most == 0 {
            return Duration::ZERO;
        }
        self.jitter = self.jitter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.jitter;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Duration::from_micros((bits ^ (bits >> 31)) % most)
    }

    pub(super) fn send(&mut self, to: PeerId, message: ElectionMessage) {
        self.outputs.push_back(Output::Send { to, message });
    }

    fn broadcast(&mut self, message: ElectionMessage) {
        let others: Vec<PeerId> = self.live.others(self.me).collect();
        self.send_all(others, message);
    }

    fn send_all(&mut self, peers: Vec<PeerId>, message: ElectionMessage) {
        for to in peers {
            self.send(to, message);
        }
    }

    fn tell(&mut self, term: Term, leader: Option<PeerId>) {
        if self.told != (term, leader) {
            self.told = (term, leader);
            self.outputs.push_back(Output::Leader { term, leader });
        }
    }
}

/// For the model checker. Outputs are always carried out before a state is looked at, and the rest never changes.
#[cfg(test)]
impl core::hash::Hash for Election {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (self.me, self.promised, self.voted_for, self.heard, &self.live).hash(state);
        (self.suspect, self.tries, self.leaving, &self.role, self.told).hash(state);
    }
}
