//! What was placed and is not yet visible in digests.
//!
//! Digests come once a second. Without this memory every request of a burst would go to the peer that looked best
//! before the burst.

use core::time::Duration;

use idlewild_protocol::{BootId, ModelLoad, PeerId, RequestId};

use crate::Now;
use crate::view::View;

/// A reservation counts at least so long: a digest that was under way when the request was placed does not show it.
const SETTLE: Duration = Duration::from_millis(700);

/// A reservation never counts longer: the request may have ended, or never have started.
const LIFETIME: Duration = Duration::from_secs(4);

/// Reservations that are remembered; beyond that the oldest is forgotten, which costs accuracy in a burst only.
const RESERVATIONS_MAX: usize = 1024;

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

/// All of them, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reservations {
    list: Vec<Reservation>,
}

impl Reservations {
    /// Forgets what digests show by now, and what is too old.
    pub(super) fn prune(&mut self, now: Now, view: &View) {
        self.list.retain(|reservation| {
            let age = now.saturating_sub(reservation.placed_at);
            age <= LIFETIME && (age <= SETTLE || !reservation.is_visible_in(view))
        });
    }

    /// Remembers one; an earlier placement of the same request is void.
    pub(super) fn add(&mut self, reservation: Reservation) {
        self.forget(reservation.request);
        if self.list.len() >= RESERVATIONS_MAX {
            self.list.remove(0);
        }
        self.list.push(reservation);
    }

    /// The request is placed anew, so it does not run where it was.
    pub(super) fn forget(&mut self, request: RequestId) {
        self.list.retain(|r| r.request != request);
    }

    /// Everything that is reserved on `peer`.
    pub(super) fn on(&self, peer: PeerId) -> Load {
        let here = self.list.iter().filter(|r| r.peer == peer).map(|r| r.load);
        here.fold(Load::default(), |sum, load| Load {
            requests: sum.requests + load.requests,
            prefill_s: sum.prefill_s + load.prefill_s,
            service_s: sum.service_s + load.service_s,
            tokens: sum.tokens.saturating_add(load.tokens),
        })
    }
}

impl Reservation {
    /// Whether the peer has said anything since, or is gone.
    fn is_visible_in(&self, view: &View) -> bool {
        let digest = view.peer(self.peer).and_then(|view| view.digest.as_ref());
        digest.is_none_or(|digest| digest.version() > self.version)
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
    /// gained nothing by batching: to overestimate a burst's load spreads it, to underestimate it does not.
    pub(super) fn decode_share(&self, model: &ModelLoad) -> f64 {
        let present = f64::from(model.running) + 1.0;
        let together = (present + f64::from(self.requests)).min(f64::from(model.slots).max(present));
        present / together
    }
}
