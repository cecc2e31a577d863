//! Who cannot take a request, and why.

use idlewild_protocol::{DepartureCause, Digest, ModelId, ModelInfo, ModelLoad, PeerState, PlaceRequest, Term, Unfit};

use super::fleet::{MODEL, digest, model, ms, peer, place, request, tell, view_of, why_not, worker};
use crate::coordinator::Coordinator;
use crate::view::View;

/// Peer 2 with this digest cannot serve, and this is said of it.
fn check(digest_of_2: Digest, request: &PlaceRequest, why: Unfit) {
    let reply = place(&view_of(&[digest(1, model()), digest_of_2.clone()]), request);
    assert_eq!(worker(&reply), Some(peer(1)), "{why}");
    assert_eq!(why_not(&reply, 2), Some(why));
    let mut alone = view_of(&[digest_of_2]);
    alone.expire(ms(0));
    assert_eq!(worker(&place(&alone, request)), None, "{why}");
}

#[test]
fn every_reason_is_told() {
    let leaving = PeerState::Leaving { cause: DepartureCause::Sleep, notice_ms: 900 };
    let other = ModelLoad { model: ModelId([8; 32]), ..model() };
    check(digest(2, other), &request(1), Unfit::NoModel);
    check(Digest { state: PeerState::Busy, ..digest(2, model()) }, &request(1), Unfit::OwnerPresent);
    check(Digest { state: leaving, ..digest(2, model()) }, &request(1), Unfit::Leaving);
    let failed = PlaceRequest { excluded: vec![peer(2)], ..request(1) };
    check(digest(2, model()), &failed, Unfit::JustFailed);
    let short = ModelLoad { context_tokens: 100, ..model() };
    check(digest(2, short), &request(1), Unfit::ContextTooLong { context_tokens: 100 });
}

#[test]
fn a_peer_of_which_only_the_connection_is_known_cannot_be_chosen() {
    let mut view = view_of(&[digest(1, model())]);
    view.connected(ms(0), peer(2), idlewild_protocol::BootId(1));
    assert_eq!(why_not(&place(&view, &request(1)), 2), Some(Unfit::Unreachable));
}

#[test]
fn a_peer_that_departed_is_not_even_named() {
    let mut view = view_of(&[digest(1, model()), digest(2, model())]);
    view.departed(ms(0), peer(2), DepartureCause::Crash);
    assert!(place(&view, &request(1)).terms.iter().all(|t| t.peer != peer(2)));
}

fn known_by_gossip() -> View {
    let mut view = View::new(peer(1));
    view.apply(ms(0), digest(2, model()));
    view
}

#[test]
fn a_peer_known_by_gossip_serves_other_origins_while_its_digest_is_fresh() {
    let view = known_by_gossip();
    let for_another = |now| Coordinator::default().place(now, &view, Term(1), peer(7), &request(1));
    assert_eq!(worker(&for_another(ms(10_000))), Some(peer(2)));
    assert_eq!(why_not(&for_another(ms(16_000)), 2), Some(Unfit::Unreachable));
}

#[test]
fn a_peer_known_by_gossip_alone_does_not_serve_us() {
    assert_eq!(why_not(&place(&known_by_gossip(), &request(1)), 2), Some(Unfit::Unreachable));
}

#[test]
fn what_will_not_change_is_said_before_what_may() {
    let busy_without = Digest { state: PeerState::Busy, models: Vec::new(), ..digest(2, model()) };
    let excluded = PlaceRequest { excluded: vec![peer(2)], ..request(1) };
    let reply = place(&view_of(&[digest(1, model()), busy_without]), &excluded);
    assert_eq!(why_not(&reply, 2), Some(Unfit::NoModel));
    let short = ModelLoad { context_tokens: 100, ..model() };
    let busy_and_short = Digest { state: PeerState::Busy, ..digest(2, short) };
    assert_eq!(
        why_not(&place(&view_of(&[digest(1, model()), busy_and_short]), &excluded), 2),
        Some(Unfit::ContextTooLong { context_tokens: 100 })
    );
}

#[test]
fn room_that_is_taken_now_is_waited_for_where_there_is_no_other() {
    let full = ModelLoad { kv_free_tokens: 10, ..model() };
    let both = place(&view_of(&[digest(1, model()), digest(2, full)]), &request(1));
    assert_eq!(why_not(&both, 2), Some(Unfit::ContextTooLong { context_tokens: 4096 }));
    assert_eq!(worker(&place(&view_of(&[digest(2, full)]), &request(1))), Some(peer(2)));
}

#[test]
fn an_answer_that_may_end_with_the_context_beats_none() {
    let scant = ModelLoad { context_tokens: 120, ..model() };
    let both = place(&view_of(&[digest(1, model()), digest(2, scant)]), &request(1));
    assert_eq!(why_not(&both, 2), Some(Unfit::ContextTooLong { context_tokens: 120 }));
    assert_eq!(worker(&place(&view_of(&[digest(2, scant)]), &request(1))), Some(peer(2)));
    let none = ModelLoad { context_tokens: 100, ..model() };
    assert_eq!(worker(&place(&view_of(&[digest(2, none)]), &request(1))), None, "not one token fits");
}

#[test]
fn only_a_peer_with_a_larger_context_takes_a_prompt_that_was_too_long() {
    let large = ModelLoad { context_tokens: 8192, decode_tps: 1.0, ..model() };
    let long = PlaceRequest { prompt_tokens: 5000, ..request(1) };
    let mut view = view_of(&[digest(1, model()), digest(2, model())]);
    assert_eq!(worker(&place(&view, &long)), None);
    tell(&mut view, ms(0), digest(3, large));
    assert_eq!(worker(&place(&view, &long)), Some(peer(3)));
}

/// A peer whose digest is full of other models, and that has named these besides.
fn crowded(n: u8, named: &[ModelId]) -> View {
    let others =
        (20..24).map(|id| ModelLoad { model: ModelId([id; 32]), loaded: id == 20, queue_wait_ms: 900, ..model() });
    let mut view = view_of(&[Digest { models: others.collect(), ..digest(n, model()) }]);
    let info = |id: &ModelId| ModelInfo { id: *id, name: "m".to_owned(), size_bytes: 1, context_tokens: 2048 };
    view.names_models(peer(n), named.iter().map(info).collect());
    view
}

#[test]
fn a_model_that_its_peer_s_digest_has_no_room_for_is_served_if_it_is_named() {
    assert_eq!(why_not(&place(&crowded(2, &[]), &request(1)), 2), Some(Unfit::NoModel));
    let view = crowded(2, &[ModelId([20; 32]), MODEL]);
    let reply = place(&view, &request(1));
    assert_eq!(worker(&reply), Some(peer(2)));
    assert!(reply.terms[0].wait_s >= 0.9, "it waits as long as any model that is not in memory: {reply:?}");
    let long = PlaceRequest { prompt_tokens: 2048, ..request(1) };
    assert_eq!(why_not(&place(&view, &long), 2), Some(Unfit::ContextTooLong { context_tokens: 2048 }));
}

#[test]
fn a_peer_that_states_the_model_comes_before_one_that_only_names_it() {
    let mut view = crowded(2, &[MODEL]);
    tell(&mut view, ms(0), digest(3, model()));
    assert_eq!(worker(&place(&view, &request(1))), Some(peer(3)));
}

#[test]
fn a_digest_with_room_left_states_all_models() {
    let mut view = view_of(&[digest(2, ModelLoad { model: ModelId([8; 32]), ..model() })]);
    let info = ModelInfo { id: MODEL, name: "m".to_owned(), size_bytes: 1, context_tokens: 2048 };
    view.names_models(peer(2), vec![info]);
    assert_eq!(why_not(&place(&view, &request(1)), 2), Some(Unfit::NoModel));
}
