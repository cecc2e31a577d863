//! Which of the fit peers is chosen, and how that is explained.

use idlewild_protocol::{Digest, ModelLoad, PlaceOutcome, QuantisedSurvival, Term};

use super::fleet::{digest, model, ms, peer, place, request, view_of, worker};
use crate::coordinator::Coordinator;

#[test]
fn the_peer_that_will_be_done_first_is_chosen() {
    let fast = ModelLoad { decode_tps: 40.0, ..model() };
    let reply = place(&view_of(&[digest(1, model()), digest(2, fast), digest(3, model())]), &request(1));
    assert_eq!(worker(&reply), Some(peer(2)));
}

#[test]
fn a_fast_peer_that_is_about_to_leave_is_not_chosen() {
    let faster = ModelLoad { decode_tps: 11.0, ..model() };
    let leaver = Digest { survival: QuantisedSurvival::of(|t_s| (-t_s / 8.0).exp()), ..digest(2, faster) };
    let reply = place(&view_of(&[digest(1, model()), leaver]), &request(1));
    assert_eq!(worker(&reply), Some(peer(1)));
    let leaver = reply.terms.iter().find(|t| t.peer == peer(2)).unwrap();
    assert!(leaver.time_s() < reply.terms[0].time_s(), "it would be faster if it stayed");
    assert!(leaver.leave_probability > 0.4 && leaver.loss_s > 1.0, "{leaver:?}");
}

#[test]
fn a_queue_is_part_of_the_time() {
    let queued = ModelLoad { queue_wait_ms: 30_000, decode_tps: 40.0, ..model() };
    let reply = place(&view_of(&[digest(1, model()), digest(2, queued)]), &request(1));
    assert_eq!(worker(&reply), Some(peer(1)));
    assert_eq!(reply.terms[1].wait_s, 30.0);
}

#[test]
fn a_model_on_disk_serves_where_loading_it_is_worth_it() {
    let on_disk = ModelLoad { loaded: false, kv_free_tokens: 0, queue_wait_ms: 2000, decode_tps: 100.0, ..model() };
    let reply = place(&view_of(&[digest(1, model()), digest(2, on_disk)]), &request(1));
    assert_eq!(worker(&reply), Some(peer(2)));
    assert_eq!(reply.terms[0].wait_s, 2.0);
}

#[test]
fn a_peer_that_has_measured_nothing_serves_where_it_is_the_only_one() {
    let unmeasured = ModelLoad { decode_tps: 0.0, prefill_tps: 0.0, ..model() };
    let alone = place(&view_of(&[digest(1, unmeasured)]), &request(1));
    assert_eq!(worker(&alone), Some(peer(1)));
    let measured = place(&view_of(&[digest(1, unmeasured), digest(2, model())]), &request(1));
    assert_eq!(worker(&measured), Some(peer(2)));
}

#[test]
fn the_terms_are_those_of_policy_section_2() {
    let reply = place(&view_of(&[digest(1, model())]), &request(1));
    let terms = reply.terms[0];
    // 100 tokens at 100 a second, then 50 at 10.
    assert_eq!((terms.wait_s, terms.service_s), (0.0, 6.0));
    // Nobody else is there. With this probability it is noticed (1 s) that the whole request is lost, at the weight of a
    // loss in placement.
    let leaves = 1.0 - (-6.0_f64 / 36_000.0).exp();
    assert!((terms.leave_probability / leaves - 1.0).abs() < 0.05, "{terms:?}");
    assert!((terms.loss_s / (leaves * (1.0 + 6.0 + 120.0)) - 1.0).abs() < 0.05, "{terms:?}");
}

#[test]
fn tokens_that_exist_are_prefilled_and_not_decoded_again() {
    let resumed = idlewild_protocol::PlaceRequest { done_tokens: 20, ..request(1) };
    let reply = place(&view_of(&[digest(1, model())]), &resumed);
    assert!((reply.terms[0].service_s - (1.2 + 3.0)).abs() < 1e-9);
}

#[test]
fn of_equals_the_origin_wins_and_then_the_smaller_id() {
    let all = [digest(1, model()), digest(2, model()), digest(3, model())];
    assert_eq!(worker(&place(&view_of(&all), &request(1))), Some(peer(1)));
    let reply = Coordinator::default().place(ms(0), &view_of(&all), Term(1), peer(3), &request(1));
    assert_eq!(worker(&reply), Some(peer(3)));
    assert_eq!(worker(&place(&view_of(&all[1..]), &request(1))), Some(peer(2)));
}

#[test]
fn the_fallback_is_the_fastest_at_prefill_of_the_others() {
    let quick = ModelLoad { prefill_tps: 900.0, decode_tps: 1.0, ..model() };
    let reply = place(&view_of(&[digest(1, model()), digest(2, model()), digest(3, quick)]), &request(1));
    assert_eq!(reply.outcome, PlaceOutcome::Run { worker: peer(1), fallback: Some(peer(3)) });
}

#[test]
fn a_reply_names_its_question_and_its_term() {
    let reply = Coordinator::default().place(ms(0), &view_of(&[]), Term(77), peer(1), &request(5));
    assert_eq!((reply.request, reply.attempt, reply.term), (request(5).request, 3, Term(77)));
    assert_eq!(reply.outcome, PlaceOutcome::Nowhere);
}

#[test]
fn terms_come_best_first_and_never_without_the_fallback() {
    let rates = (1..40).map(|n: u8| ModelLoad { decode_tps: 50.0 - f32::from(n), ..model() });
    let mut digests: Vec<Digest> = (1..).zip(rates).map(|(n, model)| digest(n, model)).collect();
    digests[30].models[0].prefill_tps = 101.0;
    digests[5].models.clear();
    let reply = place(&view_of(&digests), &request(1));
    assert_eq!(reply.terms.len(), idlewild_protocol::MAX_TERMS_PER_PLAN);
    assert_eq!(worker(&reply), Some(reply.terms[0].peer));
    assert!(reply.terms.windows(2).all(|pair| pair[0].expected_s() <= pair[1].expected_s()));
    assert_eq!(reply.outcome, PlaceOutcome::Run { worker: peer(1), fallback: Some(peer(31)) });
    assert!(reply.terms.iter().any(|t| t.peer == peer(31)));
}
