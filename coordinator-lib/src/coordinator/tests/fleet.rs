//! Views to place in.

use core::time::Duration;

use idlewild_protocol::{
    BootId, Digest, ModelId, ModelLoad, MoveTimes, PeerId, PeerState, PlaceOutcome, PlaceReply, PlaceRequest,
    QuantisedSurvival, RequestId, Term, Unfit,
};

use crate::Now;
use crate::coordinator::Coordinator;
use crate::view::View;

pub(super) fn peer(n: u8) -> PeerId {
    PeerId([n; 32])
}

pub(super) fn ms(ms: u64) -> Now {
    Duration::from_millis(ms)
}

pub(super) const MODEL: ModelId = ModelId([9; 32]);

/// A loaded model on an idle peer: 10 tokens a second, room for 4096.
pub(super) fn model() -> ModelLoad {
    ModelLoad {
        model: MODEL,
        loaded: true,
        decode_tps: 10.0,
        prefill_tps: 100.0,
        decode_doubles_at: 0,
        prefill_doubles_at: 0,
        kv_bytes_per_token: 1000,
        context_tokens: 4096,
        kv_free_tokens: 8192,
        queue_wait_ms: 0,
        running: 0,
        slots: 4,
    }
}

/// A peer in a session that is expected to last 10 hours.
pub(super) fn digest(n: u8, model: ModelLoad) -> Digest {
    Digest {
        peer: peer(n),
        boot: BootId(1),
        sequence: 1,
        state: PeerState::Serving,
        age_s: 0,
        survival: QuantisedSurvival::of(|t_s| (-t_s / 36_000.0).exp()),
        models: vec![model],
        up_bytes_per_s: 0,
        down_bytes_per_s: 0,
        move_times: MoveTimes::default(),
        pairs: Vec::new(),
        coordinator: None,
    }
}

/// Of peer 1, with these peers connected to it; digest of peer 1 included.
pub(super) fn view_of(digests: &[Digest]) -> View {
    let mut view = View::new(peer(1));
    for digest in digests {
        tell(&mut view, ms(0), digest.clone());
    }
    view
}

pub(super) fn tell(view: &mut View, now: Now, digest: Digest) {
    if digest.peer == view.me() {
        view.state_own(now, digest, None);
    } else {
        view.connected(now, digest.peer, digest.boot);
        view.apply(now, digest);
    }
}

pub(super) fn request(n: u8) -> PlaceRequest {
    PlaceRequest {
        request: RequestId([n; 16]),
        attempt: 3,
        model: MODEL,
        prompt_tokens: 100,
        expected_output_tokens: 50,
        done_tokens: 0,
        excluded: Vec::new(),
    }
}

/// Placed by peer 1 for itself, by a coordinator without a past.
pub(super) fn place(view: &View, request: &PlaceRequest) -> PlaceReply {
    Coordinator::default().place(ms(0), view, Term(1), peer(1), request)
}

pub(super) fn worker(reply: &PlaceReply) -> Option<PeerId> {
    match reply.outcome {
        PlaceOutcome::Run { worker, .. } => Some(worker),
        PlaceOutcome::Nowhere => None,
    }
}

pub(super) fn why_not(reply: &PlaceReply, n: u8) -> Option<Unfit> {
    reply.terms.iter().find(|t| t.peer == peer(n)).unwrap().unfit
}
