//! Every order of events in small worlds of three peers, by stateright.
//!
//! Timers carry no time here ([`Timing::untimed`]): whatever can be due is due, and the checker decides what comes
//! first. That allows more than any clock would. Messages stay in the network for ever: they are delivered late, twice,
//! in any order, or never. Bounded are the rounds, and how often a peer crashes, leaves, or sees another live view.

use std::collections::BTreeSet;

use idlewild_protocol::{Ballot, ElectionMessage, PeerId, Term};
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::super::role::Role;
use super::net::peer;
use crate::Now;
use crate::election::{Candidate, Election, Input, Output, Timing, round};

const PEERS: [usize; 3] = [1, 2, 3];

/// What may happen in a world, and how often.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    rounds: u32,
    crashes: u8,
    departures: u8,
    /// Times that some peer's live view changes: a partition, a death noticed late, a link that only one side lost.
    view_changes: u8,
    /// The bug that is put in: a peer that restarts has forgotten its vote.
    forgets_votes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    machines: Vec<Election>,
    disks: Vec<(Term, Option<PeerId>)>,
    /// Bit n: peer n is in the live view.
    views: Vec<u8>,
    network: BTreeSet<Envelope>,
    /// Ghost: who was elected in which term.
    elected: BTreeSet<(Term, PeerId)>,
    /// Ghost: the latest term in which each peer led.
    led: Vec<Term>,
    /// Ghost: a vote, a leadership or the leader that is followed was of an earlier term than the one before.
    went_back: bool,
    crashes: u8,
    departures: u8,
    view_changes: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Envelope {
    from: usize,
    to: usize,
    word: Word,
}

/// An [`ElectionMessage`] that can be sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Word {
    Beat(Term),
    Request(Term, PeerId),
    Vote(Term, bool),
    HandOver(Term, PeerId),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Deliver(Envelope),
    Tick(usize),
    Crash(usize),
    Leave(usize),
    See(usize, u8),
}

fn word_of(message: ElectionMessage) -> Word {
    match message {
        ElectionMessage::Beat { term } => Word::Beat(term),
        ElectionMessage::RequestVote(ballot) => Word::Request(ballot.term, ballot.candidate),
        ElectionMessage::Vote { term, granted } => Word::Vote(term, granted),
        ElectionMessage::HandOver { term, successor } => Word::HandOver(term, successor),
    }
}

fn message_of(word: Word) -> ElectionMessage {
    match word {
        Word::Beat(term) => ElectionMessage::Beat { term },
        Word::Request(term, candidate) => ElectionMessage::RequestVote(Ballot { term, candidate }),
        Word::Vote(term, granted) => ElectionMessage::Vote { term, granted },
        Word::HandOver(term, successor) => ElectionMessage::HandOver { term, successor },
    }
}

impl World {
    fn new() -> Self {
        let blank = |n: &usize| Election::with_timing(peer(*n), Term(0), None, 0, Timing::untimed());
        let mut world = Self {
            machines: PEERS.iter().map(blank).collect(),
            disks: vec![(Term(0), None); PEERS.len()],
            views: vec![0b111; PEERS.len()],
            network: BTreeSet::new(),
            elected: BTreeSet::new(),
            led: vec![Term(0); PEERS.len()],
            went_back: false,
            crashes: 0,
            departures: 0,
            view_changes: 0,
        };
        for n in 0..PEERS.len() {
            world.hear(n, world.view_of(n));
        }
        world
    }

    fn view_of(&self, n: usize) -> Input {
        let seen = PEERS.iter().enumerate().filter(|(at, _)| self.views[n] & (1 << at) != 0);
        Input::Live { peers: seen.map(|(_, p)| Candidate { peer: peer(*p), remaining_s: 0.0 }).collect() }
    }

    fn hear(&mut self, n: usize, input: Input) {
        let followed = self.followed(n);
        self.machines[n].handle(Now::ZERO, input);
        let follows = self.followed(n);
        self.went_back |= follows.zip(followed).is_some_and(|(now, before)| now < before);
        while let Some(output) = self.machines[n].poll_output() {
            match output {
                Output::Send { to, message } => {
                    let to = usize::from(to.0[0]) - 1;
                    self.network.insert(Envelope { from: n, to, word: word_of(message) });
                }
                Output::Persist { term, voted_for } => {
                    self.went_back |= term <= self.disks[n].0;
                    self.disks[n] = (term, voted_for);
                }
                Output::Leader { term, leader } => {
                    if leader == Some(peer(PEERS[n])) && round(term) > 0 {
                        self.elected.insert((term, peer(PEERS[n])));
                        self.went_back |= term <= self.led[n];
                        self.led[n] = term;
                    }
                }
            }
        }
    }

    /// The term of the leader that it follows: none while it looks for one, so that the next may be of any term (the other
    /// side of a partition that lost its own leader must be free to follow the one that is left).
    fn followed(&self, n: usize) -> Option<Term> {
        match &self.machines[n].role {
            Role::Following { seat, .. } => Some(seat.term),
            Role::Looking { .. } | Role::Alone { .. } | Role::Standing(_) | Role::Leading { .. } => None,
        }
    }

    fn crash(&mut self, n: usize, forgets: bool) {
        self.crashes += 1;
        if forgets {
            self.disks[n] = (Term(0), None);
        }
        let (term, voted_for) = self.disks[n];
        self.machines[n] = Election::with_timing(peer(PEERS[n]), term, voted_for, 0, Timing::untimed());
        self.hear(n, self.view_of(n));
    }

    fn has_one_leader_a_term(&self) -> bool {
        let terms: BTreeSet<Term> = self.elected.iter().map(|(term, _)| *term).collect();
        terms.len() == self.elected.len()
    }

    fn has_one_leader_a_round(&self) -> bool {
        let rounds: BTreeSet<u32> = self.elected.iter().map(|(term, _)| round(*term)).collect();
        rounds.len() == self.elected.len()
    }
}

impl Model for Bounds {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(world.network.iter().copied().map(Step::Deliver));
        for n in 0..PEERS.len() {
            steps.push(Step::Tick(n));
            if world.crashes < self.crashes {
                steps.push(Step::Crash(n));
            }
            if world.departures < self.departures {
                steps.push(Step::Leave(n));
            }
            if world.view_changes < self.view_changes {
                let others = (0..8).filter(|view| view & (1 << n) != 0 && *view != world.views[n]);
                steps.extend(others.map(|view| Step::See(n, view)));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Deliver(Envelope { from, to, word }) => {
                next.hear(to, Input::Peer { from: peer(PEERS[from]), message: message_of(word) });
            }
            Step::Tick(n) => next.hear(n, Input::Tick),
            Step::Crash(n) => next.crash(n, self.forgets_votes),
            Step::Leave(n) => {
                next.departures += 1;
                next.hear(n, Input::Leaving);
            }
            Step::See(n, view) => {
                next.view_changes += 1;
                next.views[n] = view;
                next.hear(n, next.view_of(n));
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one leader a term", |_, world: &World| world.has_one_leader_a_term()),
            Property::always("terms never go back", |_, world: &World| !world.went_back),
            Property::sometimes("somebody leads", |_, world: &World| !world.elected.is_empty()),
        ];
        if self.view_changes == 0 {
            let one_a_round = |_: &Self, world: &World| world.has_one_leader_a_round();
            properties.push(Property::always("one leader a round", one_a_round));
        }
        if self.rounds > 1 {
            let anew = |_: &Self, world: &World| world.elected.len() > 1;
            properties.push(Property::sometimes("somebody else leads later", anew));
        }
        properties
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.disks.iter().all(|(term, _)| round(*term) <= self.rounds)
    }
}

const CALM: Bounds = Bounds { rounds: 1, crashes: 0, departures: 0, view_changes: 0, forgets_votes: false };

/// Visits every state of a bounded world or, of one that is too large, those nearest to its beginning.
fn check(bounds: Bounds, states_max: Option<usize>) {
    let builder = bounds.checker().threads(2);
    let builder = states_max.into_iter().fold(builder, stateright::CheckerBuilder::target_state_count);
    let checker = builder.spawn_bfs().join();
    println!("{} states of {bounds:?}, depth {}", checker.unique_state_count(), checker.max_depth());
    assert!(checker.is_done());
    checker.assert_properties();
}

/// What a test may take on two slow cores: some ten seconds.
const MANY_STATES: Option<usize> = Some(400_000);

#[test]
fn no_order_of_events_gives_a_round_two_leaders_while_all_see_all() {
    check(Bounds { crashes: 1, ..CALM }, None);
    check(Bounds { departures: 1, ..CALM }, None);
}

#[test]
fn no_later_round_has_two_leaders_either() {
    check(Bounds { rounds: 2, crashes: 1, departures: 1, ..CALM }, MANY_STATES);
}

#[test]
fn no_partition_gives_a_term_two_leaders() {
    check(Bounds { rounds: 2, view_changes: 2, ..CALM }, MANY_STATES);
}

#[test]
fn the_checker_finds_a_peer_that_forgets_its_vote() {
    let bug = Bounds { crashes: 1, forgets_votes: true, ..CALM };
    let broken = ["one leader a round", "terms never go back"];
    let found = HasDiscoveries::AllOf(BTreeSet::from(broken));
    let checker = bug.checker().threads(2).finish_when(found).target_state_count(200_000).spawn_bfs().join();
    for property in broken {
        assert!(checker.discovery(property).is_some(), "the checker would miss a real bug too: {property}");
    }
}
