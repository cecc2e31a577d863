//! What was placed and digests do not show yet.

use idlewild_protocol::{Digest, ModelLoad, PeerId, Term};

use super::fleet::{digest, model, ms, peer, request, tell, view_of, worker};
use crate::Now;
use crate::coordinator::Coordinator;
use crate::view::View;

fn place_one(coordinator: &mut Coordinator, now: Now, view: &View, n: u8) -> Option<PeerId> {
    worker(&coordinator.place(now, view, Term(1), peer(1), &request(n)))
}

#[test]
fn a_burst_is_spread() {
    let view = view_of(&(1..=4).map(|n| digest(n, model())).collect::<Vec<_>>());
    let mut coordinator = Coordinator::default();
    let mut placed = [0; 5];
    for n in 0..12 {
        let worker = place_one(&mut coordinator, ms(0), &view, n).unwrap();
        placed[usize::from(worker.0[0])] += 1;
    }
    assert_eq!(placed, [0, 3, 3, 3, 3]);
}

#[test]
fn a_burst_on_unequal_peers_is_spread_by_their_speed() {
    let fast = ModelLoad { decode_tps: 30.0, prefill_tps: 300.0, ..model() };
    let view = view_of(&[digest(1, model()), digest(2, fast)]);
    let mut coordinator = Coordinator::default();
    let on_fast = (0..8).filter(|n| place_one(&mut coordinator, ms(0), &view, *n) == Some(peer(2))).count();
    assert!((5..=7).contains(&on_fast), "{on_fast} of 8");
}

#[test]
fn a_digest_made_before_the_request_arrived_does_not_end_the_reservation() {
    let mut view = view_of(&[digest(1, model()), digest(2, model())]);
    let mut coordinator = Coordinator::default();
    assert_eq!(place_one(&mut coordinator, ms(0), &view, 1), Some(peer(1)));
    for n in [1, 2] {
        tell(&mut view, ms(100), Digest { sequence: 2, ..digest(n, model()) });
    }
    assert_eq!(place_one(&mut coordinator, ms(200), &view, 2), Some(peer(2)));
}

#[test]
fn a_later_digest_ends_the_reservation() {
    let mut view = view_of(&[digest(1, model()), digest(2, model())]);
    let mut coordinator = Coordinator::default();
    assert_eq!(place_one(&mut coordinator, ms(0), &view, 1), Some(peer(1)));
    for n in [1, 2] {
        tell(&mut view, ms(900), Digest { sequence: 2, ..digest(n, model()) });
    }
    assert_eq!(place_one(&mut coordinator, ms(1000), &view, 2), Some(peer(1)), "it says itself what runs there");
}

#[test]
fn a_reservation_ends_by_itself() {
    let view = view_of(&[digest(1, model()), digest(2, model())]);
    let mut coordinator = Coordinator::default();
    assert_eq!(place_one(&mut coordinator, ms(0), &view, 1), Some(peer(1)));
    assert_eq!(place_one(&mut coordinator, ms(3900), &view, 2), Some(peer(2)));
    assert_eq!(place_one(&mut coordinator, ms(8000), &view, 3), Some(peer(1)));
}

#[test]
fn a_request_that_is_placed_again_holds_one_reservation() {
    let view = view_of(&[digest(1, model()), digest(2, model())]);
    let mut coordinator = Coordinator::default();
    for _ in 0..5 {
        assert_eq!(place_one(&mut coordinator, ms(0), &view, 1), Some(peer(1)));
    }
}

#[test]
fn reserved_room_is_not_given_twice() {
    let small = ModelLoad { kv_free_tokens: 200, ..model() };
    let slow = ModelLoad { decode_tps: 0.5, ..model() };
    let view = view_of(&[digest(1, small), digest(2, slow)]);
    let mut coordinator = Coordinator::default();
    assert_eq!(place_one(&mut coordinator, ms(0), &view, 1), Some(peer(1)));
    assert_eq!(place_one(&mut coordinator, ms(0), &view, 2), Some(peer(2)), "150 of its 200 tokens are spoken for");
}

#[test]
fn what_waits_for_a_slot_waits_for_the_work_there() {
    let single = ModelLoad { slots: 1, ..model() };
    let view = view_of(&[digest(1, single)]);
    let mut coordinator = Coordinator::default();
    let _ = place_one(&mut coordinator, ms(0), &view, 1);
    let reply = coordinator.place(ms(0), &view, Term(1), peer(1), &request(2));
    assert_eq!(reply.terms[0].wait_s, 6.0);
}
