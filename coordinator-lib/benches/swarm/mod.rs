//! A large swarm, the same at each run: peers of many speeds and habits, and requests that run on them.

use std::time::Duration;

use idlewild_coordinator::coordinator::{Coordinator, CoordinatorConfig, Input};
use idlewild_coordinator::view::View;
use idlewild_protocol::{
    BootId, Digest, Epoch, ModelId, ModelLoad, MoveTimes, PeerId, PeerState, PlaceRequest, QuantisedSurvival,
    RequestId, RequestReport, RequestStage, Term,
};

/// Models of a swarm; each peer carries two of them.
const MODELS: u64 = 4;

/// Numbers without a pattern (SplitMix64).
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Log-uniform.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        let part = self.next() as f64 / u64::MAX as f64;
        low * (high / low).powf(part)
    }
}

pub(crate) fn peer(n: u64) -> PeerId {
    let mut id = [7; 32];
    id[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    PeerId(id)
}

fn model(n: u64) -> ModelId {
    ModelId([n as u8; 32])
}

fn load(numbers: &mut Numbers, model: ModelId) -> ModelLoad {
    let decode_tps = numbers.between(4.0, 120.0);
    ModelLoad {
        model,
        loaded: true,
        decode_tps: decode_tps as f32,
        prefill_tps: (decode_tps * numbers.between(8.0, 40.0)) as f32,
        decode_doubles_at: 2000 + numbers.below(3000) as u16,
        prefill_doubles_at: 3000,
        kv_bytes_per_token: 28_672,
        context_tokens: 8192,
        kv_free_tokens: 16_384,
        queue_wait_ms: if numbers.below(4) == 0 { numbers.between(10.0, 60_000.0) as u32 } else { 0 },
        running: numbers.below(3) as u16,
        slots: 4,
    }
}

fn digest(numbers: &mut Numbers, n: u64) -> Digest {
    let scale_s = numbers.between(60.0, 40_000.0);
    let first = numbers.below(MODELS);
    Digest {
        peer: peer(n),
        boot: BootId(1),
        sequence: 1,
        state: if numbers.below(10) == 0 { PeerState::Busy } else { PeerState::Serving },
        age_s: 0,
        survival: QuantisedSurvival::of(|t_s| (-(t_s / scale_s).powf(0.7)).exp()),
        models: vec![load(numbers, model(first)), load(numbers, model((first + 1) % MODELS))],
        up_bytes_per_s: numbers.between(1e6, 1e8) as u64,
        down_bytes_per_s: numbers.between(1e6, 1e8) as u64,
        move_times: MoveTimes::default(),
        pairs: Vec::new(),
        coordinator: None,
    }
}

/// A view of `peers` peers, heard over the last second.
pub(crate) fn view_of(peers: u64) -> View {
    let mut numbers = Numbers::new(peers);
    let mut view = View::bounded(peer(0), peers as usize + 1);
    view.state_own(Duration::from_secs(1), digest(&mut numbers, 0), None);
    for n in 1..peers {
        let at = Duration::from_millis(numbers.below(1000));
        view.apply(at, digest(&mut numbers, n));
    }
    view
}

/// A view of `peers` peers that are all alike.
pub(crate) fn view_of_twins(peers: u64) -> View {
    let one = digest(&mut Numbers::new(1), 0);
    let mut view = View::bounded(peer(0), peers as usize + 1);
    view.state_own(Duration::from_secs(1), Digest { state: PeerState::Serving, ..one.clone() }, None);
    for n in 1..peers {
        view.apply(Duration::from_millis(n % 1000), Digest { peer: peer(n), state: PeerState::Serving, ..one.clone() });
    }
    view
}

pub(crate) fn question(numbers: &mut Numbers, n: u64) -> PlaceRequest {
    PlaceRequest {
        request: request_id(n),
        attempt: 0,
        model: model(numbers.below(MODELS)),
        prompt_tokens: numbers.between(50.0, 4000.0) as u32,
        expected_output_tokens: numbers.between(20.0, 1500.0) as u32,
        done_tokens: 0,
        excluded: Vec::new(),
    }
}

fn request_id(n: u64) -> RequestId {
    let mut id = [3; 16];
    id[..8].copy_from_slice(&n.wrapping_mul(0xd134_2543_de82_ef95).to_be_bytes());
    RequestId(id)
}

/// A leader that follows `requests` requests, each running on a peer of `view` that carries its model. Its next round is due
/// at [`ROUND_AT`].
pub(crate) fn leader_of(view: &View, requests: u64) -> Coordinator {
    let mut numbers = Numbers::new(requests);
    let serving: Vec<&Digest> = view.peers().filter_map(|(_, known)| known.digest.as_ref()).collect();
    let mut leader = Coordinator::new(CoordinatorConfig::default());
    let at = Duration::from_secs(1);
    leader.handle(at, view, Input::Leading { term: Term(1) });
    for n in 0..requests {
        let worker = serving[numbers.below(serving.len() as u64) as usize];
        let question = question(&mut numbers, n);
        let done_tokens = numbers.between(1.0, 500.0) as u32;
        let left = f64::from(question.expected_output_tokens);
        let report = RequestReport {
            request: question.request,
            epoch: Epoch(1),
            sequence: 1,
            model: worker.models[0].model,
            stage: RequestStage::Running { worker: worker.peer },
            prompt_tokens: question.prompt_tokens,
            done_tokens,
            residual_tokens: [0.1, 0.4, 1.0, 1.6, 3.0].map(|part| (part * left) as u32),
            hops: 0,
            standby: None,
            excluded: Vec::new(),
        };
        let origin = serving[numbers.below(serving.len() as u64) as usize].peer;
        leader.handle(at, view, Input::Report { origin, report });
    }
    assert_eq!(leader.followed() as u64, requests);
    leader
}

/// When a leader of [`leader_of`] begins a round.
pub(crate) const ROUND_AT: Duration = Duration::from_secs(7);

/// Runs the round to its end; how many plans it made.
pub(crate) fn run_round(leader: &mut Coordinator, view: &View) -> usize {
    let mut plans = 0;
    loop {
        leader.handle(ROUND_AT, view, Input::Tick);
        plans += core::iter::from_fn(|| leader.poll_output()).count();
        if leader.poll_timeout().is_none_or(|at| at > ROUND_AT) {
            return plans;
        }
    }
}
