//! What the corrected rule is told: peers, a request that runs, and what has been prepared for it.

use idlewild_protocol::DepartureCause;

use crate::cost::{Batch, Path, PeerRates, Residual, Way};
use crate::hazard::Hazard;

/// The relative standard error that an expected loss is taken to have where the estimator gives none.
pub const ASSUMED_LOSS_ERROR: f64 = 0.3;

/// The wait, in seconds, that stands for one that is not known or has no end: half a year.
const UNKNOWN_WAIT_S: f64 = 1.6e7;

/// A household circuit or a Wi-Fi: what takes several peers away at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Site {
    /// Equal for peers of the same.
    pub id: u64,
    /// The probability that another of its peers leaves together with one that leaves.
    pub leaves_together: f64,
}

impl Site {
    /// Whether both are known to be at one site.
    pub(super) fn is_shared(a: Option<Self>, b: Option<Self>) -> bool {
        matches!((a, b), (Some(a), Some(b)) if a.id == b.id)
    }

    /// The probability that a peer at `b` leaves with one at `a`: 0 for others than those of one site.
    pub(super) fn together(a: Option<Self>, b: Option<Self>) -> f64 {
        match a {
            Some(site) if !Self::is_shared(a, b) || site.leaves_together <= 0.0 => 0.0,
            Some(site) if site.leaves_together < 1.0 => site.leaves_together,
            // Certain, or no number.
            Some(_) => 1.0,
            None => 0.0,
        }
    }
}

/// One peer as one decision finds it.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a, K> {
    /// The caller's name for it.
    pub id: K,
    /// Its rates: for one more request, or, of the peer that runs it, those that this request has now.
    pub rates: PeerRates,
    /// w: seconds before a new request starts there. What waits behind a request that runs is no wait of its own.
    pub wait_s: f64,
    /// Its chance to stay.
    pub hazard: Hazard<'a>,
    /// The standard error of a loss expected there, relative to it.
    pub loss_error: f64,
    /// u: the part of its time that is taken, 0 to 1.
    pub utilisation: f64,
    /// Requests that wait there.
    pub queued: u32,
    /// What it decodes now, apart from this request.
    pub batch: Batch,
    /// Who leaves with it; none where nothing is known to.
    pub site: Option<Site>,
    /// When it will leave, in seconds from now. Only a simulator knows, only an oracle asks.
    pub known_remaining_s: Option<f64>,
}

impl<'a, K> Host<'a, K> {
    /// An idle peer of which no more than this is known.
    pub fn new(id: K, rates: PeerRates, hazard: Hazard<'a>) -> Self {
        Self {
            id,
            rates,
            wait_s: 0.0,
            hazard,
            loss_error: ASSUMED_LOSS_ERROR,
            utilisation: 0.0,
            queued: 0,
            batch: Batch::EMPTY,
            site: None,
            known_remaining_s: None,
        }
    }

    /// Seconds of wait. One that is not known is a long one.
    pub(super) fn known_wait_s(&self) -> f64 {
        if self.wait_s.is_nan() { UNKNOWN_WAIT_S } else { self.wait_s.clamp(0.0, UNKNOWN_WAIT_S) }
    }

    /// The relative error of its losses. One that is not known is as large as the loss.
    pub(super) fn known_loss_error(&self) -> f64 {
        if self.loss_error.is_finite() { self.loss_error.abs() } else { 1.0 }
    }
}

/// A peer that could take a request over.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a, K> {
    /// The peer.
    pub host: Host<'a, K>,
    /// How its context would get there; none where there is no way.
    pub path: Option<Path>,
}

/// What is known of the departure of the peer that runs a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leaving {
    /// Its hazard, and no more.
    #[default]
    Unannounced,
    /// It has said so.
    Announced {
        /// Why.
        cause: DepartureCause,
        /// Milliseconds until it is gone with all that it holds.
        notice_ms: u32,
        /// Whether it decodes until then. Not if its owner is back: only its memory is still there.
        decodes: bool,
    },
}

/// A destination that prepares, or has prepared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standby<K> {
    /// Which. Its peer must be among the candidates, else it counts as lost.
    pub at: K,
    /// How it gets the context.
    pub way: Way,
    /// Tokens that it lacks now, by its own report.
    pub lag_tokens: u32,
    /// Whether it only keeps what it has.
    pub is_paused: bool,
}

/// A request that runs, and where it could go.
#[derive(Debug, Clone, Copy)]
pub struct RunningRequest<'a, K> {
    /// The peer that runs it.
    pub source: Host<'a, K>,
    /// c: tokens of its context: the prompt and what was produced.
    pub context_tokens: u32,
    /// R: tokens still to come.
    pub residual: Residual,
    /// Planned moves that it has made.
    pub hops: u32,
    /// What is known of the source's departure.
    pub leaving: Leaving,
    /// What was prepared.
    pub standby: Option<Standby<K>>,
    /// Where it could go, pruned by the caller. The source's fallback is sought among them.
    pub candidates: &'a [Candidate<'a, K>],
}

impl<'a, K: Copy + PartialEq> RunningRequest<'a, K> {
    /// The candidate called `id`.
    pub fn candidate(&self, id: K) -> Option<&'a Candidate<'a, K>> {
        self.candidates.iter().find(|candidate| candidate.host.id == id)
    }
}
