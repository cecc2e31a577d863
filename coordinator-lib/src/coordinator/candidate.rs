//! A peer that could take a request, as the search and the policy see it.

use idlewild_protocol::{Digest, ModelLoad, PeerId, Unfit};

use super::fitness::{Question, Room};
use super::reservations::{Load, Reservations};
use crate::cost::PeerRates;
use crate::hazard::{DigestCurve, Hazard};
use crate::policy::FleetPeer;
use crate::view::{Offer, PeerView};

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

    /// What it offers to one more request: as its digest says, with what is reserved there too.
    pub(super) fn offer(&self) -> Offer {
        let mut offer = Offer::of(self.model);
        offer.decode_tps *= self.reserved.decode_share(self.model);
        offer.wait_s += self.reserved.wait_s(self.model);
        offer
    }

    /// The same, as costs want it.
    pub(super) fn rates(&self) -> PeerRates {
        let offer = self.offer();
        PeerRates {
            decode_tps: offer.decode_tps,
            prefill_tps: offer.prefill_tps,
            bandwidth_bps: 0.0,
            kv_bytes_per_token: f64::from(self.model.kv_bytes_per_token),
            // Settled by `Room` already, which may be content with less than the whole request needs.
            room_tokens: u32::MAX,
        }
    }

    /// Its chance to stay.
    pub(super) fn hazard(&self) -> Hazard<'a> {
        Hazard { curve: self.curve, age_s: self.digest_age_s }
    }

    /// As a policy wants it.
    pub(super) fn in_fleet(&self) -> FleetPeer<'a, PeerId> {
        FleetPeer {
            id: self.peer,
            rates: self.rates(),
            load_s: self.offer().wait_s,
            hazard: self.hazard(),
            known_remaining_s: None,
        }
    }
}
