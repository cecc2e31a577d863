//! The conversation that every pair of connected peers keeps: heartbeats, digests, election, placement.

use std::net::SocketAddr;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{
    BootId, Message, ModelId, ModelInfo, PeerId, Plan, PlanRefused, RequestId, RequestReport, SignedDigest, Term,
};

/// Digests that one answer of anti-entropy may carry.
pub const MAX_DIGESTS_PER_MESSAGE: usize = 64;

/// Digest versions that one round of anti-entropy may name.
pub const MAX_VERSIONS_PER_MESSAGE: usize = 512;

/// Models that a peer may name to another: what fits a message with the longest of names, and some.
pub const MAX_MODELS_PER_MESSAGE: usize = 128;

/// Peers that a placement may exclude.
pub const MAX_EXCLUDED_PEERS: usize = 32;

/// Members that a peer may tell another of: as many as it may be connected to.
pub const MAX_NEIGHBOURS_PER_MESSAGE: usize = 256;

/// Places of one member that are told.
pub const MAX_PLACES_PER_MEMBER: usize = 4;

/// Peers whose terms a placement explains: the chosen, the fallback, and the best of the rest.
pub const MAX_TERMS_PER_PLAN: usize = 16;

/// A frame on the control stream, version 1.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum ControlMessage {
    /// Are you there? Sent every 500 ms.
    Ping {
        /// Echoed.
        nonce: u64,
    },
    /// I am.
    Pong {
        /// Of the ping.
        nonce: u64,
    },
    /// What the sender says about itself.
    Digest(SignedDigest),
    /// Nothing has changed since that digest.
    Unchanged(DigestVersion),
    /// Anti-entropy: what the sender has; the receiver answers with what is newer.
    Versions(Vec<DigestVersion>),
    /// Anti-entropy: what the other lacked.
    Digests(Vec<SignedDigest>),
    /// The election's own talk.
    Election(ElectionMessage),
    /// To the coordinator: where should this run?
    Place(PlaceRequest),
    /// From the coordinator.
    Placed(PlaceReply),
    /// The sender's session, or its process, ends.
    Goodbye {
        /// Why.
        cause: DepartureCause,
        /// Milliseconds until it stops.
        notice_ms: u32,
    },
    /// What the sender's own models are called (a digest names them by hash): after connecting, and when they change.
    Models(Vec<ModelInfo>),
    /// To the coordinator: how a request of the sender's own is doing.
    Report(Box<RequestReport>),
    /// To the coordinator: a request of the sender's own has ended.
    Ended {
        /// Which.
        request: RequestId,
    },
    /// From the coordinator: what should become of a request of the receiver's own.
    Plan(Box<Plan>),
    /// To the coordinator: a plan of its is not followed.
    PlanRefused(PlanRefused),
    /// Whom the sender is connected to, and where it sees them: after connecting, and when that changes.
    Neighbours(Neighbours),
}

impl Message for ControlMessage {
    const MAX_BYTES: usize = 48 * 1024;

    fn is_valid(&self) -> bool {
        match self {
            Self::Versions(list) => list.len() <= MAX_VERSIONS_PER_MESSAGE,
            Self::Digest(digest) => digest.is_short(),
            Self::Digests(list) => list.len() <= MAX_DIGESTS_PER_MESSAGE && list.iter().all(SignedDigest::is_short),
            Self::Place(request) => request.is_valid(),
            Self::Placed(reply) => reply.is_valid(),
            Self::Models(list) => list.len() <= MAX_MODELS_PER_MESSAGE && list.iter().all(ModelInfo::is_valid),
            Self::Report(report) => report.is_valid(),
            Self::Plan(plan) => plan.is_valid(),
            Self::Neighbours(neighbours) => neighbours.is_valid(),
            Self::Ping { .. }
            | Self::Pong { .. }
            | Self::Unchanged(_)
            | Self::Election(_)
            | Self::Goodbye { .. }
            | Self::Ended { .. }
            | Self::PlanRefused(_) => true,
        }
    }
}

/// Whom a peer is connected to without a relay between. Members that do not find each other learn from a third where the
/// other is, and whether it can be reached through the third.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Neighbours {
    /// Whether the sender relays for members: they may ask it for a reservation.
    pub relays: bool,
    /// In the order of their ids, each once (at most [`MAX_NEIGHBOURS_PER_MESSAGE`]).
    pub members: Vec<Whereabouts>,
}

impl Neighbours {
    fn is_valid(&self) -> bool {
        self.members.len() <= MAX_NEIGHBOURS_PER_MESSAGE
            && self.members.is_sorted_by(|one, next| one.peer < next.peer)
            && self.members.iter().all(|member| member.places.len() <= MAX_PLACES_PER_MEMBER)
    }
}

/// Where a member is that the sender is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Whereabouts {
    /// Who.
    pub peer: PeerId,
    /// Where the sender reaches it, or sees it come from: QUIC and TCP have the same port number (at most
    /// [`MAX_PLACES_PER_MEMBER`]). Behind a translating router that is the router's place for it.
    pub places: Vec<SocketAddr>,
    /// Whether it has a reservation with the sender: the sender relays to it.
    pub reserved: bool,
}

/// Which digest of which peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DigestVersion {
    /// The digest's peer.
    pub peer: PeerId,
    /// Its boot.
    pub boot: BootId,
    /// Its sequence.
    pub sequence: u64,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureCause {
    /// The owner touched the machine.
    OwnerReturned,
    /// The machine goes to sleep.
    Sleep,
    /// The machine or the agent shuts down.
    Shutdown,
    /// It runs on battery.
    Battery,
    /// A rule of the owner's forbids.
    Rule,
    /// The network went away.
    Network,
    /// The process died.
    Crash,
    /// Nobody could tell.
    Unknown,
}

impl core::fmt::Display for DepartureCause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::OwnerReturned => "its owner came back",
            Self::Sleep => "it goes to sleep",
            Self::Shutdown => "it shuts down",
            Self::Battery => "it runs on battery",
            Self::Rule => "a rule or a pause of its owner's",
            Self::Network => "the network went away",
            Self::Crash => "it crashed",
            Self::Unknown => "for no known reason",
        })
    }
}

/// How a candidate ranks: longer expected remaining session first, then the smaller peer id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Ballot {
    /// The election.
    pub term: Term,
    /// Who stands.
    pub candidate: PeerId,
}

/// What electing peers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ElectionMessage {
    /// The leader lives. Every 500 ms.
    Beat {
        /// Its term.
        term: Term,
    },
    /// Vote for me.
    RequestVote(Ballot),
    /// An answer to it.
    Vote {
        /// Of the ballot, or the voter's own where that is higher.
        term: Term,
        /// Whether it was given.
        granted: bool,
    },
    /// The leader is about to leave and names who should stand at once.
    HandOver {
        /// The leader's term; the successor stands in the next.
        term: Term,
        /// Who.
        successor: PeerId,
    },
}

/// A question to the coordinator: where should this request run (again)?
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PlaceRequest {
    /// Which request. The reply names it.
    pub request: RequestId,
    /// Which question about it, counted by the origin: a late reply to an earlier one is known by it.
    pub attempt: u32,
    /// The model.
    pub model: ModelId,
    /// Tokens of the prompt (estimated where no tokenizer was at hand).
    pub prompt_tokens: u32,
    /// Tokens of output to expect in total.
    pub expected_output_tokens: u32,
    /// Tokens of output that exist already.
    pub done_tokens: u32,
    /// Peers that just failed it (at most [`MAX_EXCLUDED_PEERS`]).
    pub excluded: Vec<PeerId>,
}

impl PlaceRequest {
    fn is_valid(&self) -> bool {
        self.excluded.len() <= MAX_EXCLUDED_PEERS
    }
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PlaceReply {
    /// Of the question.
    pub request: RequestId,
    /// Of the question.
    pub attempt: u32,
    /// The answerer's term.
    pub term: Term,
    /// Where, or why nowhere.
    pub outcome: PlaceOutcome,
    /// The terms of every peer that mattered, best first (at most [`MAX_TERMS_PER_PLAN`]).
    pub terms: Vec<PeerTerms>,
}

impl PlaceReply {
    fn is_valid(&self) -> bool {
        self.terms.len() <= MAX_TERMS_PER_PLAN && self.terms.iter().all(PeerTerms::is_finite)
    }
}

/// Where a request should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceOutcome {
    /// Here.
    Run {
        /// The chosen peer.
        worker: PeerId,
        /// Who would take over if it left.
        fallback: Option<PeerId>,
    },
    /// Nowhere now: the terms say why, peer by peer.
    Nowhere,
}

/// What running the request on one peer would cost. E = T + L, T = wait + service. Numbers are finite, 0 where there is
/// none to give.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct PeerTerms {
    /// The peer.
    pub peer: PeerId,
    /// Why it cannot take the request; none where it can.
    pub unfit: Option<Unfit>,
    /// Seconds before it would start.
    pub wait_s: f64,
    /// Seconds of prefill and decoding.
    pub service_s: f64,
    /// Expected seconds lost to its departure.
    pub loss_s: f64,
    /// Probability that it leaves before the request is done.
    pub leave_probability: f64,
}

impl PeerTerms {
    /// T: seconds until the request is done if the peer stays.
    pub fn time_s(&self) -> f64 {
        self.wait_s + self.service_s
    }

    pub(crate) fn is_finite(&self) -> bool {
        [self.wait_s, self.service_s, self.loss_s, self.leave_probability].iter().all(|x| x.is_finite())
    }

    /// E: what placement compares.
    pub fn expected_s(&self) -> f64 {
        self.time_s() + self.loss_s
    }
}

/// Why a peer cannot take a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    /// It does not have the model.
    #[error("does not have the model")]
    NoModel,
    /// Its context, or the room left in it, is too small.
    #[error("has no room for a context this long (it holds {context_tokens} tokens)")]
    ContextTooLong {
        /// Tokens that a context may have there, at best.
        context_tokens: u32,
    },
    /// Its owner is there, or a rule forbids.
    #[error("takes no work now (its owner, a pause or a rule)")]
    OwnerPresent,
    /// It is about to leave.
    #[error("is leaving")]
    Leaving,
    /// It just failed this request.
    #[error("failed this request just now")]
    JustFailed,
    /// Nobody can reach it.
    #[error("cannot be reached")]
    Unreachable,
}
