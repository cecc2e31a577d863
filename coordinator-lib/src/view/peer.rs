//! What is believed of one peer.

use idlewild_protocol::{BootId, Digest, MAX_MODELS_PER_MESSAGE, ModelInfo, PeerState, SignedDigest};

use super::unstated;
use crate::Now;
use crate::hazard::DigestCurve;

/// One peer as we see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerView {
    /// Its latest digest, with the models that it has named besides; none between connection and first word.
    pub digest: Option<Digest>,
    /// The same as it came, to be passed on; none where it was not signed (tests) or never came.
    pub signed: Option<SignedDigest>,
    /// When that digest came, or was last confirmed.
    pub heard_at: Now,
    /// Since when it is connected to us (ourselves: since the view was made); none where we know it by gossip only.
    pub connected_since: Option<Now>,
    /// Which life of its process this is.
    pub boot: BootId,
    /// The survival that the digest states, decoded once: every cost asks it.
    curve: Option<Box<DigestCurve>>,
    /// All models that it has named.
    named: Vec<ModelInfo>,
    /// How many of the digest's models it stated itself.
    stated: usize,
}

/// A link that we measured ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Goodput in bytes a second; none where never measured.
    pub bytes_per_s: Option<u64>,
    /// Round trip in microseconds.
    pub rtt_us: u32,
}

impl PeerView {
    pub(super) fn new(boot: BootId, now: Now) -> Self {
        Self {
            digest: None,
            signed: None,
            heard_at: now,
            connected_since: None,
            boot,
            curve: None,
            named: Vec::new(),
            stated: 0,
        }
    }

    /// The digest with the models that it has no room for.
    pub(super) fn completed(&mut self, mut digest: Digest) -> Digest {
        self.stated = digest.models.len();
        unstated::add(&mut digest, &self.named);
        digest
    }

    /// Takes in which models it has. Its digest as that changes it; none where there is none.
    pub(super) fn named(&mut self, models: Vec<ModelInfo>) -> Option<Digest> {
        self.named = models;
        self.named.truncate(MAX_MODELS_PER_MESSAGE);
        let mut digest = self.digest.clone()?;
        digest.models.truncate(self.stated);
        unstated::add(&mut digest, &self.named);
        Some(digest)
    }

    /// Takes in what it says now; `signed` is how it came.
    pub(super) fn believe(&mut self, now: Now, digest: Digest, signed: Option<SignedDigest>) {
        if self.digest.as_ref().is_none_or(|known| known.survival != digest.survival) {
            self.curve = Some(Box::new(DigestCurve::new(&digest.survival)));
        }
        self.boot = digest.boot;
        self.heard_at = now;
        self.digest = Some(digest);
        self.signed = signed;
    }

    /// Forgets what it said.
    pub(super) fn forget_digest(&mut self) {
        self.digest = None;
        self.signed = None;
        self.curve = None;
    }

    /// Its survival from when its digest was made; none without a digest.
    pub fn curve(&self) -> Option<&DigestCurve> {
        self.curve.as_deref()
    }

    /// Whether we can reach it ourselves.
    pub fn is_connected(&self) -> bool {
        self.connected_since.is_some()
    }

    /// Whether `digest` says more than what is known: of a later life, or later of the same.
    pub(super) fn is_older_than(&self, digest: &Digest) -> bool {
        digest.boot >= self.boot && self.digest.as_ref().is_none_or(|known| known.version() < digest.version())
    }

    /// Seconds since its digest was made or confirmed: what its survival curve has aged by.
    pub fn digest_age_s(&self, now: Now) -> f64 {
        now.saturating_sub(self.heard_at).as_secs_f64()
    }

    /// Seconds that its session is expected to last still; 0 outside a session.
    pub fn expected_remaining_s(&self, now: Now) -> f64 {
        let is_serving = self.digest.as_ref().is_some_and(|digest| digest.state == PeerState::Serving);
        let curve = self.curve().filter(|_| is_serving);
        curve.map_or(0.0, |curve| curve.expected_remaining_s(self.digest_age_s(now)))
    }
}
