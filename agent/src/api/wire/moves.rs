//! Moves of a request: who stands by, what was planned, what it took; and a person's own.

use idlewild_protocol::{Epoch, Generation, PeerId, PlanRefusal, PlanStep, PlanTerms, RequestId, Way};
use serde::{Deserialize, Serialize};

/// A destination that gets ready to take a request over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyReply {
    /// Who.
    pub peer: PeerId,
    /// Tokens of the context that it holds, by its own last word.
    pub held_tokens: u32,
    /// Tokens of the context that it lacks.
    pub lag_tokens: u32,
}

/// A plan for a running request, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveRecord {
    /// Milliseconds since the request was accepted.
    pub at_ms: u64,
    /// Who decided: the coordinator, or the origin where none was visible or a person there asked for it.
    pub decided_by: PeerId,
    /// The plan's place among all.
    pub generation: Generation,
    /// The assignment that it was made for.
    pub epoch: Epoch,
    /// Who worked then.
    pub from: Option<PeerId>,
    /// What was to be done.
    pub step: PlanStep,
    /// Why, with the figures that were expected.
    pub terms: PlanTerms,
    /// Tokens that the destination lacked then, where it had begun to prepare.
    pub lag_tokens: Option<u32>,
    /// Why it was not followed; none where it was.
    pub refused: Option<PlanRefusal>,
    /// Why what was begun came to nothing, in words.
    pub outcome: Option<String>,
    /// What it took in fact, where it was measured.
    pub measured: Option<MeasuredMove>,
}

/// What a step of a move took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MeasuredMove {
    /// Milliseconds until the destination kept up.
    pub ready_ms: Option<u64>,
    /// Milliseconds from the last token of the one to the first of the other.
    pub stall_ms: Option<u64>,
    /// Bytes of KV cache that travelled.
    pub bytes: Option<u64>,
    /// Tokens whose KV cache was pulled.
    pub pulled_tokens: Option<u32>,
}

impl MeasuredMove {
    /// These figures, and those `before` where these are none.
    #[must_use]
    pub fn over(self, before: Self) -> Self {
        Self {
            ready_ms: self.ready_ms.or(before.ready_ms),
            stall_ms: self.stall_ms.or(before.stall_ms),
            bytes: self.bytes.or(before.bytes),
            pulled_tokens: self.pulled_tokens.or(before.pulled_tokens),
        }
    }
}

/// What moves and losses take beside their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OverheadsReply {
    /// O_h: from the source's last token to the destination's first.
    pub hand_off: OverheadReply,
    /// O_t: from a prepare to the first KV cache at the destination.
    pub transfer: OverheadReply,
    /// O_r: from a prepare to the first token that the destination has prefilled.
    pub recompute: OverheadReply,
    /// D: from the time a token was due to when its worker was known to be lost.
    pub detection: OverheadReply,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OverheadReply {
    /// How often it was measured here, with requests of this peer: the latest 15 times count.
    pub measured: u32,
    /// Their median in seconds; none of fewer than three.
    pub median_s: Option<f64>,
    /// Seconds that decisions go by: the median over the peers that have measured it, else what is assumed.
    pub used_s: f64,
}

/// Asks for a running request to go on at another peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRequest {
    /// Which request of this peer's.
    pub request: RequestId,
    /// Where to.
    pub to: PeerId,
    /// How its context gets there; none: as the rates between the two suggest.
    pub way: Option<Way>,
    /// Only to have the context there, for when it is needed.
    #[serde(default)]
    pub prepare_only: bool,
}

/// The move has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReply {
    /// Which request.
    pub request: RequestId,
    /// Who works.
    pub from: PeerId,
    /// Who prepares.
    pub to: PeerId,
    /// How the context gets there.
    pub way: Way,
    /// Whether it stays at that.
    pub prepare_only: bool,
}
