//! Single exchanges with one machine.

use idlewild_protocol::{Ballot, ElectionMessage, PeerId, Term};

use super::net::{ms, peer};
use crate::election::{Candidate, Election, Input, Output, ROUNDS_AHEAD_MAX, round, term_of};

fn live(peers: &[usize]) -> Input {
    Input::Live { peers: peers.iter().map(|n| Candidate { peer: peer(*n), remaining_s: 60.0 }).collect() }
}

/// Peer 1 among peers 2 and 3, with this vote on its disk.
fn voter(term: Term, voted_for: Option<PeerId>) -> Election {
    let mut machine = Election::new(peer(1), term, voted_for, 1);
    machine.handle(ms(0), live(&[1, 2, 3]));
    let _ = outputs(&mut machine);
    machine
}

fn outputs(machine: &mut Election) -> Vec<Output> {
    core::iter::from_fn(|| machine.poll_output()).collect()
}

fn ask(machine: &mut Election, round: u32, candidate: usize) -> Vec<Output> {
    let candidate = peer(candidate);
    let message = ElectionMessage::RequestVote(Ballot { term: term_of(round, candidate), candidate });
    machine.handle(ms(10), Input::Peer { from: candidate, message });
    outputs(machine)
}

fn vote(round: u32, candidate: usize, granted: bool) -> Output {
    let to = peer(candidate);
    Output::Send { to, message: ElectionMessage::Vote { term: term_of(round, to), granted } }
}

fn persist(round: u32, candidate: usize) -> Output {
    Output::Persist { term: term_of(round, peer(candidate)), voted_for: Some(peer(candidate)) }
}

#[test]
fn a_vote_is_on_the_disk_before_it_is_sent() {
    let mut machine = voter(Term(0), None);
    assert_eq!(ask(&mut machine, 1, 2), [persist(1, 2), vote(1, 2, true)]);
}

#[test]
fn one_vote_a_round_and_the_same_vote_may_be_repeated() {
    let mut machine = voter(Term(0), None);
    let _ = ask(&mut machine, 1, 3);
    assert_eq!(ask(&mut machine, 1, 3), [vote(1, 3, true)]);
    let refusal = ElectionMessage::Vote { term: term_of(1, peer(3)), granted: false };
    assert_eq!(ask(&mut machine, 1, 2), [Output::Send { to: peer(2), message: refusal }]);
    assert_eq!(ask(&mut machine, 2, 2), [persist(2, 2), vote(2, 2, true)]);
}

#[test]
fn a_vote_on_the_disk_binds_after_a_restart() {
    let mut machine = voter(term_of(1, peer(3)), Some(peer(3)));
    assert!(!ask(&mut machine, 1, 2).contains(&vote(1, 2, true)));
}

#[test]
fn whoever_hears_a_leader_votes_for_nobody_else() {
    let mut machine = voter(Term(0), None);
    let beat = ElectionMessage::Beat { term: term_of(1, peer(2)) };
    machine.handle(ms(5), Input::Peer { from: peer(2), message: beat });
    assert_eq!(outputs(&mut machine), [Output::Leader { term: term_of(1, peer(2)), leader: Some(peer(2)) }]);
    assert_eq!(ask(&mut machine, 9, 3), [vote(9, 3, false)]);
    machine.handle(ms(10), live(&[1, 3]));
    let _ = outputs(&mut machine);
    assert_eq!(ask(&mut machine, 9, 3), [persist(9, 3), vote(9, 3, true)]);
}

#[test]
fn a_term_that_is_not_its_speakers_counts_for_nothing() {
    let mut machine = voter(Term(0), None);
    let stolen = term_of(5, peer(3));
    machine.handle(ms(5), Input::Peer { from: peer(2), message: ElectionMessage::Beat { term: stolen } });
    let ballot = Ballot { term: stolen, candidate: peer(2) };
    machine.handle(ms(5), Input::Peer { from: peer(2), message: ElectionMessage::RequestVote(ballot) });
    let ballot = Ballot { term: stolen, candidate: peer(3) };
    machine.handle(ms(5), Input::Peer { from: peer(2), message: ElectionMessage::RequestVote(ballot) });
    assert_eq!(outputs(&mut machine), []);
    assert_eq!(machine.leader(), None);
}

#[test]
fn a_late_beat_of_a_departed_leader_is_not_followed() {
    let mut machine = voter(Term(0), None);
    machine.handle(ms(5), live(&[1, 3]));
    let beat = ElectionMessage::Beat { term: term_of(1, peer(2)) };
    machine.handle(ms(6), Input::Peer { from: peer(2), message: beat });
    assert_eq!(machine.leader(), None);
}

#[test]
fn the_next_candidacy_goes_beyond_every_round_that_was_heard_of() {
    let mut machine = voter(Term(0), None);
    let heard = ElectionMessage::Vote { term: term_of(41, peer(3)), granted: false };
    machine.handle(ms(5), Input::Peer { from: peer(3), message: heard });
    machine.handle(machine.poll_timeout().unwrap(), Input::Tick);
    assert!(outputs(&mut machine).iter().any(|o| matches!(o, Output::Persist { term, .. } if round(*term) == 42)));
}

#[test]
fn a_candidate_leads_on_a_majority_of_its_live_view_and_says_so_at_once() {
    let mut machine = voter(Term(0), None);
    machine.handle(machine.poll_timeout().unwrap(), Input::Tick);
    let _ = outputs(&mut machine);
    let term = term_of(1, peer(1));
    let granted = ElectionMessage::Vote { term, granted: true };
    machine.handle(ms(800), Input::Peer { from: peer(3), message: granted });
    let beat = |to| Output::Send { to: peer(to), message: ElectionMessage::Beat { term } };
    assert_eq!(outputs(&mut machine), [beat(2), beat(3), Output::Leader { term, leader: Some(peer(1)) }]);
}

#[test]
fn votes_of_another_candidacy_do_not_count() {
    let mut machine = voter(Term(0), None);
    machine.handle(machine.poll_timeout().unwrap(), Input::Tick);
    for term in [term_of(0, peer(1)), term_of(2, peer(1)), term_of(1, peer(2))] {
        machine.handle(ms(800), Input::Peer { from: peer(3), message: ElectionMessage::Vote { term, granted: true } });
    }
    assert_eq!(machine.leader(), None);
}

#[test]
fn a_newcomer_hears_a_beat_at_once() {
    let mut machine = voter(Term(0), None);
    machine.handle(machine.poll_timeout().unwrap(), Input::Tick);
    let term = term_of(1, peer(1));
    let granted = ElectionMessage::Vote { term, granted: true };
    machine.handle(ms(800), Input::Peer { from: peer(3), message: granted });
    let _ = outputs(&mut machine);
    machine.handle(ms(900), live(&[1, 2, 3, 4]));
    assert_eq!(outputs(&mut machine), [Output::Send { to: peer(4), message: ElectionMessage::Beat { term } }]);
}

#[test]
fn a_lie_of_the_highest_round_stops_no_election() {
    let lies = |from: PeerId| {
        let term = term_of(u32::MAX, from);
        [
            ElectionMessage::Beat { term },
            ElectionMessage::RequestVote(Ballot { term, candidate: from }),
            ElectionMessage::Vote { term, granted: false },
        ]
    };
    for lie in lies(peer(3)) {
        let mut machine = voter(Term(0), None);
        machine.handle(ms(5), Input::Peer { from: peer(3), message: lie });
        let said = outputs(&mut machine);
        assert!(!said.iter().any(|o| matches!(o, Output::Persist { .. } | Output::Leader { .. })), "{lie:?}: {said:?}");
        machine.handle(machine.poll_timeout().unwrap(), Input::Tick);
        let said = outputs(&mut machine);
        let stood =
            said.iter().find_map(|o| if let Output::Persist { term, .. } = o { Some(round(*term)) } else { None });
        let honest = stood.unwrap();
        assert!(honest < ROUNDS_AHEAD_MAX, "{lie:?}: a round that others believe");
        let granted = ElectionMessage::Vote { term: term_of(honest, peer(1)), granted: true };
        machine.handle(ms(800), Input::Peer { from: peer(2), message: granted });
        assert_eq!(machine.leader(), Some(peer(1)), "{lie:?}");
    }
}

#[test]
fn a_leader_that_is_far_on_is_followed_after_a_few_beats() {
    let mut machine = voter(Term(0), None);
    let beat = ElectionMessage::Beat { term: term_of(ROUNDS_AHEAD_MAX + 200, peer(2)) };
    let mut at = ms(0);
    while machine.leader().is_none() {
        machine.handle(at, Input::Peer { from: peer(2), message: beat });
        at += ms(500);
        assert!(at < ms(3000));
    }
    assert_eq!(machine.leader(), Some(peer(2)));
}

#[test]
fn with_all_rounds_spent_nobody_votes_twice_in_the_last() {
    let mut machine = voter(term_of(u32::MAX, peer(3)), Some(peer(3)));
    machine.handle(machine.poll_timeout().unwrap(), Input::Tick);
    assert!(!outputs(&mut machine).iter().any(|o| matches!(o, Output::Persist { .. })));
    assert_eq!(machine.leader(), None);
}
