//! A peer that could take a request, as the search and the policy see it.

use idlewild_protocol::{Digest, ModelLoad, PeerId, Unfit};

use super::fitness::{Question, Room};
use super::reservations::{Load, Reservations};
use crate::cost::{PeerRates, service_s};
use crate::hazard::{DigestCurve, Hazard};
use crate::policy::FleetPeer;
use crate::view::{Corner, PeerView, decode_tps, prefill_tps, queue_wait_s};

/// One peer that could take the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) peer: PeerId,
    pub(super) digest: &'a Digest,
    pub(super) model: &'a ModelLoad,
    reserved: Load,
    curve: &'a DigestCurve,
    /// Seconds since the digest was true.
    digest_age_s: f64,
}

impl<'a> Candidate<'a> {
    /// The peer, if it could take what is asked and has the `room`; else why not.
    pub(super) fn new(
        question: &Question<'a>,
        reservations: &Reservations,
        room: Room,
        peer: PeerId,
        view: &'a PeerView,
    ) -> Result<Self, Unfit> {
        let (digest, model) = question.model_on(peer, view)?;
        let reserved = reservations.on(question.now, digest);
        if !room.is_in(model, reserved.tokens, &question.work) {
            return Err(Unfit::ContextTooLong);
        }
        let curve = view.curve().ok_or(Unfit::Unreachable)?;
        Ok(Self { peer, digest, model, reserved, curve, digest_age_s: view.digest_age_s(question.now) })
    }

    /// As measured, or low where nothing was; with what is reserved decoding too.
    pub(super) fn rates(&self) -> PeerRates {
        let mut rates = rates_of(self.model);
        rates.decode_tps *= self.reserved.decode_share(self.model);
        rates
    }

    /// Seconds before the request would start.
    pub(super) fn wait_s(&self) -> f64 {
        queue_wait_s(self.model) + self.reserved.wait_s(self.model)
    }

    /// T: seconds until the request is done there if the peer stays.
    pub(super) fn time_s(&self, question: &Question<'_>) -> f64 {
        self.wait_s() + service_s(&self.rates(), &question.work)
    }

    /// As a policy wants it.
    pub(super) fn in_fleet(&self) -> FleetPeer<'a, PeerId> {
        FleetPeer {
            id: self.peer,
            rates: self.rates(),
            load_s: self.wait_s(),
            hazard: Hazard { curve: self.curve, age_s: self.digest_age_s },
            known_remaining_s: None,
        }
    }
}

/// Rates as a digest says them.
fn rates_of(model: &ModelLoad) -> PeerRates {
    PeerRates {
        decode_tps: decode_tps(model),
        prefill_tps: prefill_tps(model),
        bandwidth_bps: 0.0,
        kv_bytes_per_token: f64::from(model.kv_bytes_per_token),
        // Settled by `Room` already, which may be content with less than the whole request needs.
        room_tokens: u32::MAX,
    }
}

/// No peer of a cell is done sooner than this, in seconds: T at its corner. By the same operations in the same order as
/// [`Candidate::time_s`], each of which is monotone even as rounded.
pub(super) fn least_time_s_in(corner: &Corner, question: &Question<'_>) -> f64 {
    let rates = PeerRates {
        decode_tps: corner.decode_tps,
        prefill_tps: corner.prefill_tps,
        bandwidth_bps: 0.0,
        kv_bytes_per_token: 0.0,
        room_tokens: u32::MAX,
    };
    corner.wait_s + service_s(&rates, &question.work)
}

/// The same for a peer of which only the digest's figures are at hand: what is reserved makes none faster.
pub(super) fn least_time_s_by(model: &ModelLoad, question: &Question<'_>) -> f64 {
    queue_wait_s(model) + service_s(&rates_of(model), &question.work)
}
