//! What a leader believes of requests, and what it does not; who leads.

use idlewild_protocol::{Epoch, RequestId, RequestReport, Term};

use super::fleet::{ms, peer, view_of};
use super::leading::{FIRST_ROUND, leader, origin, outputs, plans, report, running_on, staying, tell};
use crate::Now;
use crate::coordinator::{
    Coordinator, Input, Output, REPORT_LIFETIME, REQUESTS_MAX, REQUESTS_PER_ORIGIN_MAX, ReportFault,
};

#[test]
fn a_report_that_is_not_later_changes_nothing() {
    let view = view_of(&[staying(1, 1e6)]);
    let mut leader = leader();
    let known = RequestReport { epoch: Epoch(5), sequence: 9, ..report(1, running_on(1)) };
    tell(&mut leader, ms(0), &view, known.clone());
    let before = leader.clone();
    for (epoch, sequence) in [(4, 9), (4, 100), (5, 8), (5, 9), (0, 0)] {
        let late = RequestReport { epoch: Epoch(epoch), sequence, done_tokens: 1, ..report(1, running_on(2)) };
        tell(&mut leader, ms(500), &view, late);
        assert_eq!(leader, before, "{epoch} {sequence}");
    }
    tell(&mut leader, ms(500), &view, RequestReport { epoch: Epoch(6), sequence: 0, ..known });
    assert_ne!(leader, before);
}

#[test]
fn nobody_reports_or_ends_anothers_request() {
    let view = view_of(&[]);
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(1)));
    let before = leader.clone();
    let forged = RequestReport { sequence: 2, ..report(1, running_on(2)) };
    leader.handle(ms(0), &view, Input::Report { origin: peer(9), report: forged });
    assert_eq!(outputs(&mut leader), [Output::PeerFault { peer: peer(9), fault: ReportFault::OfAnother }]);
    leader.handle(ms(0), &view, Input::Ended { origin: peer(9), request: report(1, running_on(1)).request });
    assert_eq!(leader, before);
    leader.handle(ms(0), &view, Input::Ended { origin: origin(), request: report(1, running_on(1)).request });
    assert_eq!(leader.followed(), 0);
}

fn numbered(n: usize) -> RequestReport {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    RequestReport { request: RequestId(id), ..report(1, running_on(1)) }
}

#[test]
fn one_origin_does_not_push_out_the_others() {
    let view = view_of(&[]);
    let mut leader = leader();
    for n in 0..REQUESTS_PER_ORIGIN_MAX + 5 {
        tell(&mut leader, ms(0), &view, numbered(n));
    }
    let fault = Output::PeerFault { peer: origin(), fault: ReportFault::NoRoom };
    assert_eq!(outputs(&mut leader), vec![fault; 5]);
    leader.handle(ms(0), &view, Input::Report { origin: peer(9), report: numbered(REQUESTS_MAX) });
    assert_eq!(leader.followed(), REQUESTS_PER_ORIGIN_MAX + 1);
}

#[test]
fn a_request_of_which_nothing_is_heard_is_forgotten() {
    let view = view_of(&[]);
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(1)));
    leader.handle(REPORT_LIFETIME, &view, Input::Tick);
    assert_eq!(leader.followed(), 1);
    leader.handle(REPORT_LIFETIME * 2, &view, Input::Tick);
    assert_eq!((leader.followed(), leader.poll_timeout()), (0, None));
}

#[test]
fn a_round_is_spread_over_calls_and_looks_at_everything_once() {
    let view = view_of(&[]);
    let mut leader = leader();
    (0..600).for_each(|n| tell(&mut leader, ms(0), &view, numbered(n)));
    assert_eq!(leader.poll_timeout(), Some(FIRST_ROUND));
    let mut calls = 0;
    while leader.poll_timeout().is_some_and(|at| at <= FIRST_ROUND) {
        leader.handle(FIRST_ROUND, &view, Input::Tick);
        calls += 1;
    }
    assert_eq!(calls, 3);
    assert_eq!(leader.poll_timeout(), Some(FIRST_ROUND * 2));
}

#[test]
fn a_clock_that_stands_still_brings_no_second_round() {
    let view = view_of(&[staying(2, 1.0), staying(3, 1e6)]);
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(2)));
    for _ in 0..5 {
        leader.handle(FIRST_ROUND, &view, Input::Tick);
    }
    assert_eq!(plans(&mut leader).len(), 1);
}

#[test]
fn who_does_not_lead_follows_nothing_and_answers_all_the_same() {
    let view = view_of(&[staying(1, 1e6)]);
    let mut follower = Coordinator::default();
    follower.handle(ms(0), &view, Input::Following { term: Term(7) });
    tell(&mut follower, ms(0), &view, report(1, running_on(1)));
    assert_eq!((follower.followed(), follower.poll_timeout()), (0, None));
    follower.handle(ms(0), &view, Input::Place { origin: peer(2), request: super::fleet::request(1) });
    let Some(Output::Answer { origin, reply }) = follower.poll_output() else { panic!("no answer") };
    assert_eq!((origin, reply.term, super::fleet::worker(&reply)), (peer(2), Term(7), Some(peer(1))));
}

#[test]
fn an_election_that_is_over_changes_nothing() {
    let view = view_of(&[]);
    let mut leader = Coordinator::default();
    let elect = |leader: &mut Coordinator, term, is_leading| {
        let term = Term(term);
        let input = if is_leading { Input::Leading { term } } else { Input::Following { term } };
        leader.handle(Now::ZERO, &view, input);
        leader.leads()
    };
    assert_eq!(elect(&mut leader, 3, true), Some(Term(3)));
    assert_eq!(elect(&mut leader, 2, false), Some(Term(3)));
    assert_eq!(elect(&mut leader, 4, false), None);
    assert_eq!(elect(&mut leader, 3, true), None);
    assert_eq!(elect(&mut leader, 4, true), Some(Term(4)));
}

#[test]
fn a_new_leader_begins_with_nothing() {
    let view = view_of(&[]);
    let mut leader = leader();
    tell(&mut leader, ms(0), &view, report(1, running_on(1)));
    leader.handle(ms(0), &view, Input::Following { term: Term(2) });
    leader.handle(ms(0), &view, Input::Leading { term: Term(3) });
    assert_eq!(leader.followed(), 0);
}
