//! Whom dialing dials, and when.

use super::*;
use crate::backoff::MAX_BACKOFF;

const ME: PeerId = PeerId([5; 32]);
const GREATER: PeerId = PeerId([9; 32]);
const SMALLER: PeerId = PeerId([1; 32]);

fn place(host: u8) -> Place {
    Place(std::net::SocketAddr::from(([10, 0, 0, host], 14354)))
}

fn dialled(dialing: &mut Dialing, now: Instant, have: Have) -> Vec<(Target, Carrier)> {
    let dial = |step| match step {
        Step::Dial { target, carrier, .. } => Some((target, carrier)),
        Step::Resolve { .. } | Step::Call { .. } => None,
    };
    dialing.plan(now, |_| have, |_| None).into_iter().filter_map(dial).collect()
}

fn both(target: Target) -> Vec<(Target, Carrier)> {
    Carrier::DIRECT.map(|carrier| (target, carrier)).to_vec()
}

#[test]
fn the_peer_with_the_smaller_id_dials_first_over_both_carriers() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    dialing.learn(GREATER, place(9), true, now);
    dialing.learn(SMALLER, place(1), true, now);
    assert_eq!(dialled(&mut dialing, now, Have::default()), both(Target::Peer(GREATER)));
    assert_eq!(dialled(&mut dialing, now + SECOND_DELAY, Have::default()), both(Target::Peer(SMALLER)));
    assert_eq!(dialled(&mut dialing, now + MAX_BACKOFF, Have::default()), [], "they are being dialled");
}

#[test]
fn failures_are_repeated_ever_more_slowly_until_something_changes() {
    let start = Instant::now();
    let mut now = start;
    let mut dialing = Dialing::new(ME, vec![], now);
    dialing.learn(GREATER, place(9), true, now);
    let have = Have { tcp: true, ..Have::default() };
    let mut times = Vec::new();
    while now < start + Duration::from_mins(2) {
        if dialled(&mut dialing, now, have) == [(Target::Peer(GREATER), Carrier::Quic)] {
            times.push((now - start).as_millis());
            dialing.failed(Target::Peer(GREATER), Carrier::Quic, now, 0.5);
        }
        now += Duration::from_millis(100);
    }
    assert_eq!(times, [0, 500, 1_500, 3_500, 7_500, 15_500, 31_500, 61_500, 91_500]);
    dialing.restart(now);
    assert_eq!(dialled(&mut dialing, now, have).len(), 1);
}

#[test]
fn a_refused_peer_is_left_alone_until_its_time() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    dialing.learn(GREATER, place(9), true, now);
    let until = now + Duration::from_mins(1);
    let wait = |_| Some(until);
    assert_eq!(dialing.plan(now, |_| Have::default(), wait), []);
    assert_eq!(dialing.plan(until, |_| Have::default(), wait).len(), 2);
}

#[test]
fn a_static_address_is_dialled_as_whoever_is_there() {
    let now = Instant::now();
    let written = Written::parse("10.0.0.9:14354").unwrap();
    let mut dialing = Dialing::new(ME, vec![written], now);
    assert_eq!(dialled(&mut dialing, now, Have::default()), both(Target::Static(0)));
    dialing.connected(Target::Static(0), Carrier::Quic, GREATER, Some(place(9)), now);
    dialing.succeeded(GREATER, Carrier::Quic, Some(place(9)), now);
    let later = now + SECOND_DELAY;
    let have = Have { quic: true, ..Have::default() };
    assert_eq!(dialled(&mut dialing, later, have), [(Target::Peer(GREATER), Carrier::Tcp)]);

    dialing.wrong_peer(GREATER, place(9));
    dialing.failed(Target::Static(0), Carrier::Tcp, later, 0.5);
    let much_later = later + MAX_BACKOFF;
    assert_eq!(dialled(&mut dialing, much_later, Have::default()), both(Target::Static(0)), "a new identity there");
}

#[test]
fn names_are_looked_up_and_their_places_dialled() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![Written::parse("desk.local:7").unwrap()], now);
    let steps = dialing.plan(now, |_| Have::default(), |_| None);
    assert_eq!(steps, [Step::Resolve { index: 0, host: "desk.local".to_owned(), port: 7 }]);
    dialing.resolved(0, vec![], now);
    assert_eq!(dialled(&mut dialing, now, Have::default()), []);
    dialing.resolved(0, vec![place(3)], now);
    assert_eq!(dialled(&mut dialing, now, Have::default()), both(Target::Static(0)));
}

#[test]
fn a_lost_peer_is_dialled_again_at_once_and_ourselves_never() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    dialing.learn(ME, place(5), true, now);
    dialing.learn(GREATER, place(9), true, now);
    dialled(&mut dialing, now, Have::default());
    for carrier in Carrier::DIRECT {
        dialing.connected(Target::Peer(GREATER), carrier, GREATER, Some(place(9)), now);
        dialing.succeeded(GREATER, carrier, Some(place(9)), now);
    }
    let have = Have { quic: true, tcp: true, circuit: false };
    assert_eq!(dialled(&mut dialing, now + MAX_BACKOFF, have), []);
    for carrier in Carrier::DIRECT {
        dialing.lost(GREATER, carrier, now);
    }
    assert_eq!(dialled(&mut dialing, now + MIN_BACKOFF, Have::default()), both(Target::Peer(GREATER)));
}

#[test]
fn places_of_earlier_lives_come_last_and_push_nothing_out() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    dialing.learn(GREATER, place(9), false, now);
    (10..30).for_each(|host| dialing.remember(GREATER, place(host), now));
    let steps = dialing.plan(now, |_| Have::default(), |_| None);
    let Some(Step::Dial { places, .. }) = steps.first() else { panic!("nothing is dialled: {steps:?}") };
    let expected: Vec<_> = (9..).take(MAX_PLACES).map(place).collect();
    assert_eq!(*places, expected, "the one known now first, then the latest of the book");
}

fn calls(steps: &[Step]) -> Vec<(PeerId, Vec<PeerId>)> {
    let call = |step: &Step| match step {
        Step::Call { peer, relays } => Some((*peer, relays.clone())),
        Step::Dial { .. } | Step::Resolve { .. } => None,
    };
    steps.iter().filter_map(call).collect()
}

#[test]
fn a_peer_is_called_through_a_relay_when_each_direct_way_has_failed() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    dialing.hear(GREATER, &[place(9)], Some(SMALLER), now);
    let none = |_| Have::default();
    assert_eq!(calls(&dialing.plan(now, none, |_| None)), [], "it is being dialled");
    for carrier in Carrier::DIRECT {
        dialing.failed(Target::Peer(GREATER), carrier, now, 0.5);
    }
    assert_eq!(calls(&dialing.plan(now, |_| Have { tcp: true, ..Have::default() }, |_| None)), [], "there is a way");
    assert_eq!(calls(&dialing.plan(now, none, |_| None)), [(GREATER, vec![SMALLER])]);
    assert_eq!(calls(&dialing.plan(now, none, |_| None)), [], "it is being called");
    // The circuit is there: both dial each other again, at once, and nobody is called while it lasts.
    dialing.connected(Target::Peer(GREATER), Carrier::Circuit, GREATER, None, now);
    dialing.succeeded(GREATER, Carrier::Circuit, None, now);
    let circuit = Have { circuit: true, ..Have::default() };
    assert_eq!(dialled(&mut dialing, now, circuit), both(Target::Peer(GREATER)));
    assert_eq!(calls(&dialing.plan(now + MAX_BACKOFF, |_| circuit, |_| None)), []);
    dialing.lost(GREATER, Carrier::Circuit, now);
    assert_eq!(calls(&dialing.plan(now + MAX_BACKOFF, none, |_| None)), [], "the dials at once are under way");
    for carrier in Carrier::DIRECT {
        dialing.failed(Target::Peer(GREATER), carrier, now, 0.5);
    }
    assert_eq!(calls(&dialing.plan(now + MAX_BACKOFF, none, |_| None)).len(), 1);
}

#[test]
fn who_relays_no_more_is_not_asked_to() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    let (one, other) = (PeerId([2; 32]), PeerId([3; 32]));
    for relay in [one, other] {
        dialing.hear(GREATER, &[], Some(relay), now);
    }
    dialing.is_no_relay(one, Some(SMALLER));
    dialing.is_no_relay(one, Some(GREATER));
    assert_eq!(calls(&dialing.plan(now, |_| Have::default(), |_| None)), [(GREATER, vec![other])]);
    dialing.failed(Target::Peer(GREATER), Carrier::Circuit, now, 0.5);
    dialing.is_no_relay(other, None);
    assert_eq!(calls(&dialing.plan(now + MAX_BACKOFF, |_| Have::default(), |_| None)), []);
}

#[test]
fn hearsay_pushes_out_one_place_at_most() {
    let now = Instant::now();
    let mut dialing = Dialing::new(ME, vec![], now);
    (1..=8).for_each(|host| dialing.learn(GREATER, place(host), false, now));
    (20..40).for_each(|host| dialing.hear(GREATER, &[place(host)], None, now));
    let steps = dialing.plan(now, |_| Have::default(), |_| None);
    let Some(Step::Dial { places, .. }) = steps.first() else { panic!("nothing is dialled: {steps:?}") };
    let expected: Vec<_> = (2..=8).rev().chain([39]).map(place).collect();
    assert_eq!(*places, expected, "the latest word in the last place");
}
