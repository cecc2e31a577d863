//! Placements in any view.

use idlewild_protocol::{
    ControlMessage, DepartureCause, Digest, Message, ModelLoad, PeerState, PlaceOutcome, PlaceRequest,
    QuantisedSurvival, Term,
};
use proptest::prelude::*;

use super::fleet::{MODEL, digest, model, ms, peer, request, view_of};
use crate::coordinator::Coordinator;

fn any_model() -> impl Strategy<Value = ModelLoad> {
    let rates = (0.0_f32..1e6, 0.0_f32..1e6, any::<bool>());
    let room = (0_u32..10_000, 0_u32..20_000);
    let load = (0_u32..100_000, 0_u16..9, 0_u16..9);
    (rates, room, load).prop_map(|((decode_tps, prefill_tps, loaded), (context, free), (wait, running, slots))| {
        ModelLoad {
            model: MODEL,
            loaded,
            decode_tps,
            prefill_tps,
            decode_doubles_at: context as u16,
            prefill_doubles_at: free as u16,
            kv_bytes_per_token: 1000,
            context_tokens: context,
            kv_free_tokens: free,
            queue_wait_ms: wait,
            running,
            slots,
        }
    })
}

fn any_state() -> impl Strategy<Value = PeerState> {
    prop_oneof![
        6 => Just(PeerState::Serving),
        1 => Just(PeerState::Busy),
        1 => Just(PeerState::Leaving { cause: DepartureCause::Sleep, notice_ms: 1 }),
    ]
}

fn any_digests() -> impl Strategy<Value = Vec<Digest>> {
    let one = (any_state(), any_model(), any::<bool>(), 1.0_f64..1e5);
    proptest::collection::vec(one, 0..24).prop_map(|peers| {
        let all = (1..).zip(peers).map(|(n, (state, model, has_model, mean_s))| Digest {
            state,
            survival: QuantisedSurvival::of(|t_s| (-t_s / mean_s).exp()),
            models: if has_model { vec![model] } else { Vec::new() },
            ..digest(n, model)
        });
        all.collect()
    })
}

fn any_request() -> impl Strategy<Value = PlaceRequest> {
    let tokens = (0_u32..9000, 0_u32..2000, 0_u32..2000);
    let excluded = proptest::collection::vec(1_u8..24, 0..6);
    (tokens, excluded).prop_map(|((prompt_tokens, expected_output_tokens, done_tokens), excluded)| PlaceRequest {
        prompt_tokens,
        expected_output_tokens,
        done_tokens,
        excluded: excluded.into_iter().map(peer).collect(),
        ..request(1)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn the_choice_is_fit_and_the_best_and_the_reply_can_be_sent(digests in any_digests(), request in any_request()) {
        let view = view_of(&digests);
        let reply = Coordinator::default().place(ms(0), &view, Term(1), peer(1), &request);
        let best = reply.terms.iter().find(|t| t.unfit.is_none());
        match reply.outcome {
            PlaceOutcome::Run { worker, fallback } => {
                prop_assert_eq!(best.map(|t| t.peer), Some(worker));
                prop_assert!(!request.excluded.contains(&worker));
                prop_assert_ne!(fallback, Some(worker));
                let serves = digests.iter().any(|d| d.peer == worker && d.state == PeerState::Serving && !d.models.is_empty());
                prop_assert!(serves);
            }
            PlaceOutcome::Nowhere => prop_assert_eq!(best, None),
        }
        prop_assert!(ControlMessage::Placed(reply).to_bytes().is_ok());
    }

    #[test]
    fn the_same_question_has_the_same_answer(digests in any_digests(), request in any_request()) {
        let place = |digests: &[Digest]| {
            Coordinator::default().place(ms(0), &view_of(digests), Term(1), peer(1), &request)
        };
        let backwards: Vec<Digest> = digests.iter().rev().cloned().collect();
        prop_assert_eq!(place(&digests), place(&backwards), "whatever order digests came in");
    }

    #[test]
    fn a_faster_peer_is_never_passed_over_for_its_slower_twin(rate in 1.0_f32..1000.0, more in 1.01_f32..10.0) {
        let faster = ModelLoad { decode_tps: rate * more, ..model() };
        let slower = ModelLoad { decode_tps: rate, ..model() };
        let reply = Coordinator::default().place(ms(0), &view_of(&[digest(2, slower), digest(3, faster)]), Term(1), peer(1), &request(1));
        prop_assert_eq!(reply.terms[0].peer, peer(3));
    }
}
