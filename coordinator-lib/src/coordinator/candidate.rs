//! A peer that could take a request, as the search and the policy see it.

use idlewild_protocol::{Digest, ModelLoad, PeerId, RequestReport, RequestStage, Unfit};

use super::fitness::{Question, Room};
use super::report::residual;
use super::reservations::{Load, Reservations};
use crate::Now;
use crate::cost::{Batch, Batching, PeerRates};
use crate::hazard::{DigestCurve, Hazard};
use crate::policy::FleetPeer;
use crate::policy::overlapped::Host;
use crate::view::{Offer, PeerView};

/// The part of a lone decoding step that is spent for all sequences together: digests do not say how a peer's rate falls as
/// more run. Reading the weights is most of a step on a home machine.
const ASSUMED_SHARED: f64 = 0.5;

/// Tokens that a request which runs has still to come: digests do not say.
const ASSUMED_REMAINING_TOKENS: f64 = 200.0;

/// One peer that could take the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) peer: PeerId,
    pub(super) digest: &'a Digest,
    pub(super) model: &'a ModelLoad,
    reserved: Load,
    /// Of the request: tokens of its context, and those that are expected to follow.
    tokens: (f64, f64),
    curve: &'a DigestCurve,
    /// Seconds since the digest was true.
    digest_age_s: f64,
    /// The request waits there, and the digest counts it.
    waits_there: bool,
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
        Self::with_room(question, reservations, room, view, digest, model)
    }

    /// The same of a peer that the view's index names, with what it says of the `model`.
    pub(super) fn indexed(
        question: &Question<'a>,
        reservations: &Reservations,
        room: Room,
        peer: PeerId,
        model: &'a ModelLoad,
    ) -> Option<Self> {
        let view = question.view.peer(peer)?;
        let digest = view.digest.as_ref()?;
        question.check(peer, view, digest, model).ok()?;
        Self::with_room(question, reservations, room, view, digest, model).ok()
    }

    fn with_room(
        question: &Question<'a>,
        reservations: &Reservations,
        room: Room,
        view: &'a PeerView,
        digest: &'a Digest,
        model: &'a ModelLoad,
    ) -> Result<Self, Unfit> {
        let reserved = reservations.on(question.now, digest);
        if !room.is_in(model, reserved.tokens, &question.work) {
            return Err(Unfit::ContextTooLong { context_tokens: model.context_tokens });
        }
        let curve = view.curve().ok_or(Unfit::Unreachable)?;
        let digest_age_s = view.digest_age_s(question.now);
        let tokens = (f64::from(question.work.context_tokens), question.residual.mean_tokens());
        Ok(Self { peer: digest.peer, digest, model, reserved, tokens, curve, digest_age_s, waits_there: false })
    }

    /// The peer that runs a request, or could, whatever it says of taking more. None where its digest is gone.
    pub(super) fn of_report(now: Now, view: &'a PeerView, report: &RequestReport) -> Option<Self> {
        let (digest, curve) = (view.digest.as_ref()?, view.curve()?);
        let model = digest.models.iter().find(|model| model.model == report.model)?;
        let tokens = (f64::from(report.context_tokens()), residual(report).mean_tokens());
        let digest_age_s = view.digest_age_s(now);
        let is_queued_here = matches!(report.stage, RequestStage::Queued { worker, .. } if worker == digest.peer);
        let waits_there = is_queued_here && model.running > 0;
        Some(Self {
            peer: digest.peer,
            digest,
            model,
            reserved: Load::default(),
            tokens,
            curve,
            digest_age_s,
            waits_there,
        })
    }

    /// What it offers to one more request: as its digest says, with what is reserved there too.
    pub(super) fn offer(&self) -> Offer {
        let mut offer = self.unreserved();
        offer.decode_tps *= self.reserved.decode_share(self.model);
        offer.wait_s += self.reserved.wait_s(self.model);
        offer
    }

    /// What its digest says alone, to one request more where there is a slot for it. One that waits there already would decode
    /// faster than that.
    fn unreserved(&self) -> Offer {
        let (context_tokens, more_tokens) = self.tokens;
        let offer = Offer::at_context(self.model, context_tokens, more_tokens);
        let running = u32::from(self.model.running);
        let has_free_slot = self.model.running < self.model.slots;
        let together = Batching::assumed(offer.decode_tps, running, ASSUMED_SHARED);
        let without_it = together.filter(|_| self.waits_there && has_free_slot);
        let decode_tps = without_it.map_or(offer.decode_tps, |batching| batching.decode_tps(running));
        Offer { decode_tps, ..offer }
    }

    /// Requests that run there beside this one.
    fn others(&self) -> u32 {
        u32::from(self.model.running).saturating_sub(u32::from(self.waits_there))
    }

    /// What it offers, as costs want it.
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

    /// u: the part of its slots that is taken.
    pub(super) fn utilisation(&self) -> f64 {
        utilisation(self.model, self.reserved.requests)
    }

    /// Whether others wait there, or hold the place of a model that would have to be loaded. To load one into an engine that
    /// does nothing takes its time, and is nobody's turn.
    fn has_others_first(&self) -> bool {
        if self.model.loaded {
            self.offer().wait_s > 0.0
        } else {
            self.reserved.requests > 0 || self.digest.models.iter().any(|model| model.running > 0)
        }
    }

    /// As the corrected rule wants it.
    pub(super) fn host(&self) -> Host<'a, PeerId> {
        self.host_waiting(self.offer().wait_s)
    }

    /// The same for a request that waits `wait_s` there.
    pub(super) fn host_waiting(&self, wait_s: f64) -> Host<'a, PeerId> {
        let others = self.others();
        let sequences = others.saturating_add(self.reserved.requests);
        let decode_tps = self.unreserved().decode_tps;
        Host {
            wait_s,
            utilisation: self.utilisation(),
            queued: u32::from(self.has_others_first()),
            batch: Batch {
                batching: Batching::assumed(decode_tps, others, ASSUMED_SHARED),
                running: sequences,
                remaining_tokens: f64::from(sequences) * ASSUMED_REMAINING_TOKENS,
            },
            ..Host::new(self.peer, self.rates(), self.hazard())
        }
    }

    /// As the rule as given wants it.
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

/// u: the part of a peer's slots for the model that is taken, by `reserved` requests too.
pub(super) fn utilisation(model: &ModelLoad, reserved: u32) -> f64 {
    let taken = u32::from(model.running).saturating_add(reserved);
    (f64::from(taken) / f64::from(model.slots.max(1))).min(1.0)
}
