//! What a rogue says of itself: what an honest peer of its kind would.

use anyhow::Result;
use idlewild_engine::EngineStats;
use idlewild_protocol::{
    BootId, DepartureCause, Digest, DigestVersion, ModelId, ModelInfo, ModelLoad, MoveTimes, PeerId, PeerState,
    QuantisedSurvival, SignedDigest,
};
use idlewild_swarm::Identity;

use super::life::Presence;
use super::{CONTEXT_TOKENS, KV_TOKENS, SLOTS};
use crate::{FAKE_MODEL, Fake};

/// Says it, and counts.
pub(super) struct Looks {
    identity: Identity,
    boot: BootId,
    model: ModelId,
    rates: Fake,
    sequence: u64,
    said: Option<(Presence, EngineCounts)>,
}

/// What of an engine a digest says.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EngineCounts {
    running: u16,
    kv_free_tokens: u32,
    kv_bytes_per_token: u32,
}

impl Looks {
    pub(super) fn new(identity: Identity, boot: BootId, model: ModelId, rates: Fake) -> Self {
        Self { identity, boot, model, rates, sequence: 0, said: None }
    }

    /// What there is to say, if it is another than before.
    pub(super) fn news(&mut self, presence: Presence, engine: &EngineStats) -> Result<Option<SignedDigest>> {
        let counts = EngineCounts {
            running: engine.running,
            kv_free_tokens: engine.kv_free_tokens,
            kv_bytes_per_token: engine.model.as_ref().map_or(0, |model| model.kv_bytes_per_token),
        };
        if self.said == Some((presence, counts)) {
            return Ok(None);
        }
        self.said = Some((presence, counts));
        self.sequence += 1;
        self.signed().map(Some)
    }

    /// The last digest, for one who comes.
    pub(super) fn signed(&self) -> Result<SignedDigest> {
        let identity = &self.identity;
        Ok(SignedDigest::sign(&self.digest(), |bytes| identity.sign(bytes))?)
    }

    /// Which digest still holds.
    pub(super) fn version(&self) -> DigestVersion {
        DigestVersion { peer: self.me(), boot: self.boot, sequence: self.sequence }
    }

    /// What its model is called.
    pub(super) fn models(&self) -> Vec<ModelInfo> {
        let (id, name) = (self.model, FAKE_MODEL.to_owned());
        vec![ModelInfo { id, name, size_bytes: 0, context_tokens: CONTEXT_TOKENS }]
    }

    fn me(&self) -> PeerId {
        self.identity.peer_id()
    }

    fn digest(&self) -> Digest {
        let none = EngineCounts { running: 0, kv_free_tokens: KV_TOKENS, kv_bytes_per_token: 0 };
        let (presence, counts) = self.said.unwrap_or((Presence::Serving, none));
        let state = match presence {
            Presence::Serving => PeerState::Serving,
            Presence::Gone { .. } => PeerState::Busy,
        };
        Digest {
            peer: self.me(),
            boot: self.boot,
            sequence: self.sequence,
            state,
            age_s: 60,
            // It stays for certain.
            survival: QuantisedSurvival::of(|_| 1.0),
            models: vec![ModelLoad {
                model: self.model,
                loaded: true,
                decode_tps: self.rates.decode_tps,
                prefill_tps: self.rates.prefill_tps,
                decode_doubles_at: 0,
                prefill_doubles_at: 0,
                kv_bytes_per_token: counts.kv_bytes_per_token,
                context_tokens: CONTEXT_TOKENS,
                kv_free_tokens: counts.kv_free_tokens,
                queue_wait_ms: 0,
                running: counts.running,
                slots: SLOTS,
            }],
            up_bytes_per_s: 0,
            down_bytes_per_s: 0,
            move_times: MoveTimes::default(),
            pairs: Vec::new(),
            coordinator: None,
        }
    }
}

/// Why it goes, whenever it goes.
pub(super) const CAUSE: DepartureCause = DepartureCause::OwnerReturned;
