//! What a peer offers to one more request, as its digest would say.

use super::lengths::Lengths;
use crate::cost::{Batch, PeerRates};
use crate::sim::world::{Peer, Phase, Swarm};

/// Rates for one more request, and the wait before it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offer {
    pub(super) rates: PeerRates,
    pub(super) wait_s: f64,
    /// What runs beside it; nothing where it waits until a slot is free.
    pub(super) batch: Batch,
}

/// What `peer` offers to `request`, which may wait in its queue: those behind it do not count then.
pub(super) fn offer(swarm: &Swarm, lengths: &Lengths, peer: usize, request: usize) -> Offer {
    let known = &swarm.peers[peer];
    let ahead = known.queue.iter().take_while(|at| **at != request);
    let waiting = ahead.clone().count();
    let running = known.active.iter().filter(|at| **at != request).count();
    let slots = usize::from(known.spec.slots);
    if waiting == 0 && running < slots {
        let active = || known.active.iter().filter(|at| **at != request);
        let wait_s = active().map(|at| prefill_left_s(swarm, known, *at)).sum();
        let remaining_tokens =
            active().map(|at| lengths.residual(*at, &swarm.requests[*at], swarm.now_s).mean_tokens()).sum();
        let batch = Batch { batching: Some(known.batching), running: running as u32, remaining_tokens };
        return Offer { rates: rates(known, running as u32 + 1), wait_s, batch };
    }
    let rates = rates(known, u32::from(known.spec.slots));
    let work_s: f64 = known
        .active
        .iter()
        .filter(|at| **at != request)
        .chain(ahead)
        .map(|at| {
            let tokens = lengths.residual(*at, &swarm.requests[*at], swarm.now_s).mean_tokens();
            prefill_left_s(swarm, known, *at) + tokens / rates.decode_tps
        })
        .sum();
    Offer { rates, wait_s: work_s / slots as f64, batch: Batch::EMPTY }
}

/// Rates of a peer that decodes so many at once.
pub(super) fn rates(peer: &Peer, sequences: u32) -> PeerRates {
    PeerRates {
        decode_tps: peer.batching.decode_tps(sequences.max(1)),
        prefill_tps: peer.spec.prefill_tps,
        bandwidth_bps: peer.spec.link.up_bps.min(peer.spec.link.down_bps),
        kv_bytes_per_token: peer.spec.kv_bytes_per_token,
        room_tokens: peer.spec.kv_tokens,
    }
}

pub(super) fn prefill_left_s(swarm: &Swarm, peer: &Peer, request: usize) -> f64 {
    let live = &swarm.requests[request];
    match live.phase {
        Phase::Decoding { .. } | Phase::Finished => 0.0,
        Phase::Filling { .. } => {
            let since_s = swarm.now_s - live.at_s;
            (live.left_tokens - live.filling.gain_tps() * since_s).max(0.0) / peer.spec.prefill_tps
        }
        Phase::Pending | Phase::Unnoticed | Phase::Queued { .. } | Phase::Starting { .. } => {
            live.left_tokens / peer.spec.prefill_tps
        }
    }
}
