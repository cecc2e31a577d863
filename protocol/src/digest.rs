//! What a peer gossips about itself: state, hazard, rates, links, load. Signed once, passed on unchanged.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{
    BootId, DecodeError, DepartureCause, EncodeError, Message, ModelId, MoveTimes, PeerId, Term, verify_signature,
};

/// Seconds from now at which a digest states the survival of its peer's session: 16, log-spaced, 5 s to 24 h.
pub const HORIZONS_S: [f64; 16] = [
    5.0, 9.582, 18.36, 35.19, 67.45, 129.3, 247.7, 474.8, 909.9, 1744.0, 3342.0, 6405.0, 12270.0, 23520.0, 45080.0,
    86400.0,
];

/// The most bytes of a signed digest on the wire; at 1 Hz it bounds what gossip costs.
pub const MAX_DIGEST_BYTES: usize = 512;

/// Bytes of a signed digest that are not the digest: its length (3 bytes from 251 on) and the signature.
const SIGNATURE_OVERHEAD_BYTES: usize = 3 + 64;

/// Models that a digest names: those loaded first, then those on disk.
pub const MAX_MODELS_PER_DIGEST: usize = 4;

/// Pairwise rates that a digest names: the peer's best-known links. Where numbers are long and models many, fewer fit
/// in [`MAX_DIGEST_BYTES`]; signing drops the last ones ([`SignedDigest::sign`]).
pub const MAX_PAIRS_PER_DIGEST: usize = 6;

/// Smallest cumulative hazard that has a code of its own; below it a survival reads as certain.
const MIN_CUMULATIVE_HAZARD: f64 = 1e-5;

/// Largest cumulative hazard with a code: survival 2e-9.
const MAX_CUMULATIVE_HAZARD: f64 = 20.0;

/// A survival function at [`HORIZONS_S`], each as one byte.
///
/// The byte codes the cumulative hazard H = -ln S on a log scale: 0 is H = 0, code k is 1e-5 * r^(k-1) with r chosen so
/// that 255 is H = 20. From H = 1e-5 to 20 its relative error is at most 2.9 %, hence that of a small leave probability
/// too; everywhere the absolute error of S is at most 0.011. Codes never decrease along the horizons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct QuantisedSurvival(pub [u8; HORIZONS_S.len()]);

impl QuantisedSurvival {
    /// The codes of `survival(t)` in seconds from now; values outside [0, 1] are clamped, a rise is levelled, and what is
    /// not a number reads as certain to leave: to overestimate a hazard is cheap, to underestimate it is not.
    pub fn of(survival: impl Fn(f64) -> f64) -> Self {
        let mut codes = [0_u8; HORIZONS_S.len()];
        let mut least = 0;
        for (code, horizon_s) in codes.iter_mut().zip(HORIZONS_S) {
            least = encode_hazard(-survival(horizon_s).clamp(0.0, 1.0).ln()).max(least);
            *code = least;
        }
        Self(codes)
    }

    /// Survival at each horizon, in [0, 1], never rising.
    pub fn survival(&self) -> [f64; HORIZONS_S.len()] {
        self.0.map(|code| (-decode_hazard(code)).exp())
    }

    /// Cumulative hazard at each horizon, never falling.
    pub fn cumulative_hazard(&self) -> [f64; HORIZONS_S.len()] {
        self.0.map(decode_hazard)
    }

    fn is_monotone(&self) -> bool {
        self.0.is_sorted()
    }
}

/// ln(r) of the code's log scale: 254 steps from the smallest to the largest cumulative hazard.
fn log_step() -> f64 {
    (MAX_CUMULATIVE_HAZARD / MIN_CUMULATIVE_HAZARD).ln() / 254.0
}

fn encode_hazard(hazard: f64) -> u8 {
    if hazard.is_nan() {
        return u8::MAX;
    }
    if hazard < MIN_CUMULATIVE_HAZARD / 2.0 {
        return 0;
    }
    let steps = (hazard / MIN_CUMULATIVE_HAZARD).ln() / log_step();
    steps.round().clamp(0.0, 254.0) as u8 + 1
}

fn decode_hazard(code: u8) -> f64 {
    if code == 0 { 0.0 } else { MIN_CUMULATIVE_HAZARD * (f64::from(code - 1) * log_step()).exp() }
}

/// Whether a peer takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum PeerState {
    /// In a session: its owner is away and its rules permit.
    Serving,
    /// Its owner is there, or a rule forbids: it submits and coordinates, but takes no work.
    Busy,
    /// Its session ends: nothing new, what runs must move within the notice.
    Leaving {
        /// Why.
        cause: DepartureCause,
        /// Milliseconds from this digest until it stops.
        notice_ms: u32,
    },
}

/// What one model would cost on this peer, measured here under the present load.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ModelLoad {
    /// The model.
    pub model: ModelId,
    /// In memory now; otherwise on disk, and loaded when first asked for.
    pub loaded: bool,
    /// Decoded tokens a second for one more sequence, at an empty context.
    pub decode_tps: f32,
    /// Prefilled tokens a second, at an empty context.
    pub prefill_tps: f32,
    /// Context, in tokens, at which a token takes twice as long to decode as at an empty one: time rises linearly with what
    /// attention reads. 0 where that is not known.
    pub decode_doubles_at: u16,
    /// The same of prefilling.
    pub prefill_doubles_at: u16,
    /// Bytes of KV cache a token takes on the wire.
    pub kv_bytes_per_token: u32,
    /// Longest context (prompt and output) that one request may have here, in tokens.
    pub context_tokens: u32,
    /// Tokens of KV cache that are free.
    pub kv_free_tokens: u32,
    /// Wait before a new request starts, in milliseconds (loading included).
    pub queue_wait_ms: u32,
    /// Requests that run.
    pub running: u16,
    /// Requests that may run at once.
    pub slots: u16,
}

/// A measured link from the digest's peer to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PairRate {
    /// The other end.
    pub peer: PeerId,
    /// Goodput in bytes a second.
    pub bytes_per_s: u64,
    /// Round trip in microseconds.
    pub rtt_us: u32,
}

/// Who a peer believes leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CoordinatorView {
    /// The election's number.
    pub term: Term,
    /// Its winner.
    pub leader: PeerId,
}

/// What a peer says about itself. Newer is (boot, sequence) greater.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Digest {
    /// Who says it.
    pub peer: PeerId,
    /// Which life of its process.
    pub boot: BootId,
    /// Rises by one with every digest of this boot.
    pub sequence: u64,
    /// Whether it takes work.
    pub state: PeerState,
    /// Seconds since its session began; 0 outside a session.
    pub age_s: u32,
    /// Survival of its session from now on.
    pub survival: QuantisedSurvival,
    /// Its models (at most [`MAX_MODELS_PER_DIGEST`]).
    pub models: Vec<ModelLoad>,
    /// Bytes a second that it can send; 0 where nothing was measured.
    pub up_bytes_per_s: u64,
    /// Bytes a second that it can receive; 0 where nothing was measured.
    pub down_bytes_per_s: u64,
    /// What moves and losses of its own requests took.
    pub move_times: MoveTimes,
    /// Its best-known links, those that matter most first (at most [`MAX_PAIRS_PER_DIGEST`]).
    pub pairs: Vec<PairRate>,
    /// Who it believes leads.
    pub coordinator: Option<CoordinatorView>,
}

impl Digest {
    /// Its age as gossip: greater is newer.
    pub fn version(&self) -> (BootId, u64) {
        (self.boot, self.sequence)
    }
}

impl Message for Digest {
    const MAX_BYTES: usize = MAX_DIGEST_BYTES - SIGNATURE_OVERHEAD_BYTES;

    fn is_valid(&self) -> bool {
        let rates_are_finite = |m: &ModelLoad| [m.decode_tps, m.prefill_tps].iter().all(|r| r.is_finite() && *r >= 0.0);
        self.models.len() <= MAX_MODELS_PER_DIGEST
            && self.pairs.len() <= MAX_PAIRS_PER_DIGEST
            && self.survival.is_monotone()
            && self.models.iter().all(rates_are_finite)
    }
}

/// A digest's bytes with its peer's signature over them, as they travel and are passed on.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct SignedDigest {
    bytes: Vec<u8>,
    signature: [u8; 64],
}

/// Keeps a signature over a digest from being one over anything else.
const SIGNATURE_DOMAIN: &[u8] = b"idlewild/digest/1\0";

impl SignedDigest {
    /// Signs with `sign`, which must use the key of `digest.peer`.
    ///
    /// Where the digest would pass [`MAX_DIGEST_BYTES`], its last pairs are left out; all else always fits.
    pub fn sign(digest: &Digest, sign: impl FnOnce(&[u8]) -> [u8; 64]) -> Result<Self, EncodeError> {
        let bytes = bytes_within_limit(digest)?;
        let signature = sign(&Self::signed_bytes(&bytes));
        Ok(Self { bytes, signature })
    }

    /// The digest, if it is well formed and signed by the peer that it names.
    pub fn verify(&self) -> Result<Digest, DecodeError> {
        let digest = Digest::from_bytes(&self.bytes)?;
        if verify_signature(&digest.peer.0, &Self::signed_bytes(&self.bytes), &self.signature) {
            Ok(digest)
        } else {
            Err(DecodeError::BadSignature)
        }
    }

    /// Bytes of digest and signature; its length takes up to 3 more on the wire.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len() + self.signature.len()
    }

    /// Whether it is short enough to be a digest; asked before anything is verified or kept.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes.len() <= Digest::MAX_BYTES
    }

    fn signed_bytes(bytes: &[u8]) -> Vec<u8> {
        [SIGNATURE_DOMAIN, bytes].concat()
    }
}

/// The digest's bytes, without its last pairs where they would not fit.
fn bytes_within_limit(digest: &Digest) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = digest.to_bytes();
    let mut shorter = digest.clone();
    while matches!(bytes, Err(EncodeError::TooLong { .. })) && shorter.pairs.pop().is_some() {
        bytes = shorter.to_bytes();
    }
    bytes
}

impl core::fmt::Debug for SignedDigest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SignedDigest({} bytes)", self.size_bytes())
    }
}
