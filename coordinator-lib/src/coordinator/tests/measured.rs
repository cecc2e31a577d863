//! What origins have measured of moves is what a leader goes by, though it has moved nothing itself.

use idlewild_protocol::{Digest, MoveTimes, QuantisedTime};

use super::fleet::{ms, peer, request, tell, view_of};
use super::leading::{FIRST_ROUND, first_round, leader, plans, report, running_on, staying};
use crate::cost::Overheads;
use crate::view::View;

/// Peer 2 is likely to leave, peer 3 stays; these origins say what their moves took.
fn view(origins: &[(u8, MoveTimes)]) -> View {
    let mut view = view_of(&[staying(2, 20.0), staying(3, 1e6)]);
    for (n, move_times) in origins {
        let origin = staying(*n, 1e6);
        tell(&mut view, ms(0), Digest { move_times: *move_times, models: Vec::new(), ..origin });
    }
    view
}

fn hand_off(seconds: f64) -> MoveTimes {
    MoveTimes { hand_off: QuantisedTime::of(seconds), ..MoveTimes::default() }
}

/// Seconds of stall that a leader expects of the preparation that it plans.
fn planned_stall_s(view: &View) -> f64 {
    let mut leader = leader();
    first_round(&mut leader, view, &[report(7, running_on(2))]);
    let plan = plans(&mut leader).pop().unwrap();
    plan.terms.of(peer(3)).unwrap().preparation.unwrap().stall_s
}

#[test]
fn a_leader_expects_the_stall_that_others_have_measured() {
    let assumed_s = planned_stall_s(&view(&[]));
    let measured_s = planned_stall_s(&view(&[(4, hand_off(0.4)), (5, MoveTimes::default()), (6, hand_off(0.4))]));
    let longer_s = 0.4 - Overheads::ASSUMED.hand_off_s;
    assert!((measured_s - assumed_s - longer_s).abs() < 0.02, "{measured_s} after {assumed_s}");
}

#[test]
fn a_peer_that_lies_changes_little_and_nothing_when_it_is_gone() {
    let honest = [(4, hand_off(0.1)), (5, hand_off(0.1))];
    let lied_to_s = planned_stall_s(&view(&[honest[0], honest[1], (6, hand_off(60.0))]));
    assert!((lied_to_s - planned_stall_s(&view(&[]))).abs() < 0.01, "{lied_to_s}");
    let mut alone = view(&[(6, hand_off(60.0))]);
    let leader = leader();
    assert_eq!(leader.overheads(&alone).hand_off_s, 2.0, "twenty times what is assumed");
    alone.departed(ms(1), peer(6), idlewild_protocol::DepartureCause::Network);
    assert_eq!(leader.overheads(&alone), Overheads::ASSUMED);
}

#[test]
fn who_answers_placements_alone_goes_by_it_too() {
    let detection = MoveTimes { detection: QuantisedTime::of(15.0), ..MoveTimes::default() };
    let [before, after] = [view(&[]), view(&[(4, detection)])].map(|view| {
        let mut alone = crate::coordinator::Coordinator::default();
        alone.answer(FIRST_ROUND, &view, peer(1), &request(7))
    });
    let loss_s = |reply: &idlewild_protocol::PlaceReply| {
        reply.terms.iter().find(|terms| terms.peer == peer(2)).map(|terms| terms.loss_s).unwrap()
    };
    assert!(loss_s(&after) > loss_s(&before), "{} and {}", loss_s(&before), loss_s(&after));
}
