//! What was placed and is not yet visible in digests.
//!
//! Digests come once a second. Without this memory every request of a burst would go to the peer that looked best
//! before the burst.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use idlewild_protocol::{BootId, Digest, ModelLoad, PeerId, RequestId};

use crate::Now;

/// A reservation counts at least so long: a digest that was under way when the request was placed does not show it.
const SETTLE: Duration = Duration::from_millis(700);

/// A reservation never counts longer: the request may have ended, or never have started.
const LIFETIME: Duration = Duration::from_secs(4);

/// Reservations that are remembered; beyond that the oldest is forgotten, which costs accuracy in a burst only. A round
/// over a swarm of ten thousand may place as many.
const RESERVATIONS_MAX: usize = 16_384;

/// Load that a placement put on a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reservation {
    pub(super) request: RequestId,
    pub(super) peer: PeerId,
    pub(super) placed_at: Now,
    /// The digest that did not show it.
    pub(super) version: (BootId, u64),
    pub(super) load: Load,
}

/// What a request, or several, put on a peer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Load {
    pub(super) requests: u32,
    /// Seconds of prefill.
    pub(super) prefill_s: f64,
    /// Seconds of prefill and decoding.
    pub(super) service_s: f64,
    /// Tokens of context at its end.
    pub(super) tokens: u32,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reservations {
    /// Where each request is, and since when.
    requests: BTreeMap<RequestId, (PeerId, Now)>,
    /// On each peer, oldest first.
    peers: BTreeMap<PeerId, Vec<Reservation>>,
    /// The order in which they are forgotten.
    oldest: BTreeSet<(Now, RequestId)>,
}

impl Reservations {
    /// Forgets what is too old.
    pub(super) fn prune(&mut self, now: Now) {
        while let Some((placed_at, request)) = self.oldest.first().copied()
            && now.saturating_sub(placed_at) > LIFETIME
        {
            self.forget(request);
        }
    }

    /// Remembers one; an earlier placement of the same request is void.
    pub(super) fn add(&mut self, reservation: Reservation) {
        self.forget(reservation.request);
        if self.requests.len() >= RESERVATIONS_MAX
            && let Some((_, oldest)) = self.oldest.first().copied()
        {
            self.forget(oldest);
        }
        let Reservation { request, peer, placed_at, .. } = reservation;
        self.requests.insert(request, (peer, placed_at));
        self.oldest.insert((placed_at, request));
        self.peers.entry(peer).or_default().push(reservation);
    }

    /// The request is placed anew, so it does not run where it was.
    pub(super) fn forget(&mut self, request: RequestId) -> Option<Reservation> {
        let (peer, placed_at) = self.requests.remove(&request)?;
        self.oldest.remove(&(placed_at, request));
        let here = self.peers.get_mut(&peer)?;
        let at = here.iter().position(|reservation| reservation.request == request)?;
        let forgotten = here.remove(at);
        if here.is_empty() {
            self.peers.remove(&peer);
        }
        Some(forgotten)
    }

    /// Everything that is reserved on the peer of `digest` and that it does not show.
    pub(super) fn on(&self, now: Now, digest: &Digest) -> Load {
        let Some(here) = self.peers.get(&digest.peer) else { return Load::default() };
        let hidden = here.iter().filter(|reservation| reservation.is_hidden_from(now, digest)).map(|r| r.load);
        hidden.fold(Load::default(), |sum, load| Load {
            requests: sum.requests.saturating_add(load.requests),
            prefill_s: sum.prefill_s + load.prefill_s,
            service_s: sum.service_s + load.service_s,
            tokens: sum.tokens.saturating_add(load.tokens),
        })
    }
}

impl Reservation {
    /// Whether the peer has said nothing since that could show it.
    fn is_hidden_from(&self, now: Now, digest: &Digest) -> bool {
        now.saturating_sub(self.placed_at) <= SETTLE || digest.version() <= self.version
    }
}

impl Load {
    /// Seconds that one more request waits behind these on a peer with this `model`. In a free slot it only shares the
    /// prefill; where the slots are taken it waits for their work, which as many as there are slots do side by side.
    pub(super) fn wait_s(&self, model: &ModelLoad) -> f64 {
        let free = u32::from(model.slots.saturating_sub(model.running));
        if self.requests < free { self.prefill_s } else { self.service_s / f64::from(model.slots.max(1)) }
    }

    /// What is left of the decode rate that the digest gives for one more sequence, if these decode too. As if the peer
    /// gained nothing by batching: to overestimate a burst's load spreads it, to underestimate it does not. At most 1.
    pub(super) fn decode_share(&self, model: &ModelLoad) -> f64 {
        let present = f64::from(model.running) + 1.0;
        let together = (present + f64::from(self.requests)).min(f64::from(model.slots).max(present));
        present / together
    }
}
