//! The index of a view is what its digests say, whatever happened to them.

use std::collections::BTreeMap;

use core::time::Duration;

use idlewild_protocol::{
    BootId, DepartureCause, Digest, ModelId, ModelInfo, ModelLoad, MoveTimes, PeerId, PeerState, QuantisedSurvival,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{DIGEST_LIFETIME, View};

const ME: PeerId = PeerId([0; 32]);

/// Peers of which a view has room for half.
const PEERS: u8 = 12;

#[derive(Debug, Clone)]
enum Step {
    Hear { n: u8, boot: u64, is_serving: bool, models: Vec<(u8, u8, u16)> },
    Connect { n: u8, boot: u64 },
    Depart { n: u8 },
    Name { n: u8, models: Vec<u8> },
    Expire,
}

fn any_step() -> impl Strategy<Value = Step> {
    let models = vec((0_u8..3, 0_u8..4, 0_u16..3), 0..6);
    prop_oneof![
        6 => (0..PEERS, 1_u64..3, proptest::bool::weighted(0.8), models)
            .prop_map(|(n, boot, is_serving, models)| Step::Hear { n, boot, is_serving, models }),
        2 => (1..PEERS, 1_u64..4).prop_map(|(n, boot)| Step::Connect { n, boot }),
        1 => (1..PEERS).prop_map(|n| Step::Depart { n }),
        2 => (0..PEERS, vec(0_u8..3, 0..4)).prop_map(|(n, models)| Step::Name { n, models }),
        1 => Just(Step::Expire),
    ]
}

fn load((model, speed, wait): (u8, u8, u16)) -> ModelLoad {
    ModelLoad {
        model: ModelId([model; 32]),
        loaded: true,
        decode_tps: f32::from(speed) * 9.0,
        prefill_tps: f32::from(speed) * 100.0,
        decode_doubles_at: 0,
        prefill_doubles_at: 0,
        kv_bytes_per_token: 1,
        context_tokens: 1,
        kv_free_tokens: 1,
        queue_wait_ms: u32::from(wait) * 700,
        running: 0,
        slots: 1,
    }
}

fn step(view: &mut View, at: u64, step: &Step) {
    let now = Duration::from_secs(at * 7);
    match step {
        Step::Hear { n, boot, is_serving, models } => {
            let digest = Digest {
                peer: PeerId([*n; 32]),
                boot: BootId(*boot),
                sequence: at,
                state: if *is_serving { PeerState::Serving } else { PeerState::Busy },
                age_s: 0,
                survival: QuantisedSurvival::of(|_| 1.0),
                models: models.iter().copied().map(load).collect(),
                up_bytes_per_s: 0,
                down_bytes_per_s: 0,
                move_times: MoveTimes::default(),
                pairs: Vec::new(),
                coordinator: None,
            };
            if digest.peer == ME {
                view.state_own(now, digest, None);
            } else {
                view.apply(now, digest);
            }
        }
        Step::Connect { n, boot } => view.connected(now, PeerId([*n; 32]), BootId(*boot)),
        Step::Name { n, models } => {
            let info =
                |id: &u8| ModelInfo { id: ModelId([*id; 32]), name: "m".into(), size_bytes: 1, context_tokens: 1 };
            view.names_models(PeerId([*n; 32]), models.iter().map(info).collect());
        }
        Step::Depart { n } => view.departed(now, PeerId([*n; 32]), DepartureCause::Crash),
        Step::Expire => view.expire(now + DIGEST_LIFETIME / 2),
    }
}

/// Who serves with the model, by their digests: what each says of it first.
fn by_digests(view: &View, model: ModelId) -> BTreeMap<PeerId, ModelLoad> {
    let serving = view.peers().filter_map(|(peer, known)| Some((peer, known.digest.as_ref()?)));
    let serving = serving.filter(|(_, digest)| digest.state == PeerState::Serving);
    serving.filter_map(|(peer, digest)| Some((peer, *digest.models.iter().find(|load| load.model == model)?))).collect()
}

/// The same by the index, which names nobody twice.
fn by_index(view: &View, model: ModelId) -> BTreeMap<PeerId, ModelLoad> {
    let mut all = BTreeMap::new();
    for (group_offer, group) in view.carriers(model).into_iter().flat_map(super::Carriers::groups) {
        for (offer, cell) in group.cells() {
            assert!(offer.decode_tps <= group_offer.decode_tps && offer.prefill_tps <= group_offer.prefill_tps);
            assert!(offer.wait_s >= group_offer.wait_s);
            for (peer, load) in cell.peers() {
                assert_eq!(all.insert(peer, *load), None, "{peer} twice");
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn the_index_names_those_who_serve_and_nobody_else(steps in vec(any_step(), 1..80)) {
        let mut view = View::bounded(ME, usize::from(PEERS) / 2);
        for (at, one) in (1_u64..).zip(&steps) {
            step(&mut view, at, one);
            for model in 0..3 {
                let model = ModelId([model; 32]);
                prop_assert_eq!(by_index(&view, model), by_digests(&view, model));
            }
        }
    }
}
