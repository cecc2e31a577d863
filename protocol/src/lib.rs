//! What Idlewild's peers say to each other.
//!
//! ```text
//! connection --> hello (who are you, may you be here) --> control (heartbeats, digests, election, placement, plans)
//!                                                    |--> job     (one request: start, tokens, finish)
//!                                                    \--> bulk    (bytes by the megabyte: probes, contexts)
//! ```
//!
//! This crate holds types, their bytes and their limits, and nothing that acts: no sockets, no clocks, no files.
//! Every message type names the most bytes it may take ([`Message::MAX_BYTES`]); a decoder checks it before it allocates.
//!
//! Deliberately absent: libp2p (a [`PeerId`] is an Ed25519 key, printed as libp2p prints it), and the messages between
//! an agent and its engine child, which never leave a machine.

mod bulk;
mod codec;
mod context;
mod control;
mod digest;
mod hello;
mod ids;
mod job;
mod member;
mod model;
mod plan;
mod report;
mod times;
mod version;

pub use bulk::{BulkRequest, MAX_PROBE_BYTES, Measured};
pub use codec::{DecodeError, EncodeError, FRAME_HEADER_BYTES, Message, frame, frame_len};
pub use context::{
    ChunkHeader, ContextOpen, ContextRefusal, ContextReply, ContextRequest, FEED_TOKENS, LayoutFingerprint,
    MAX_CHUNK_BYTES, MAX_CHUNK_TOKENS,
};
pub use control::{
    Ballot, ControlMessage, DepartureCause, DigestVersion, ElectionMessage, MAX_DIGESTS_PER_MESSAGE,
    MAX_EXCLUDED_PEERS, MAX_MODELS_PER_MESSAGE, MAX_NEIGHBOURS_PER_MESSAGE, MAX_PLACES_PER_MEMBER, MAX_TERMS_PER_PLAN,
    MAX_VERSIONS_PER_MESSAGE, Neighbours, PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest, Unfit, Whereabouts,
};
pub use digest::{
    CoordinatorView, Digest, HORIZONS_S, MAX_DIGEST_BYTES, MAX_MODELS_PER_DIGEST, MAX_PAIRS_PER_DIGEST, ModelLoad,
    PairRate, PeerState, QuantisedSurvival, SignedDigest,
};
pub use hello::{Credential, Hello, HelloReply, Refusal};
pub use ids::{BootId, Epoch, IdError, ModelId, PeerId, RequestId, SwarmId, Term, TokenId};
pub use job::{
    FinishReason, JobEvent, JobFailure, JobInput, JobRequest, JobStart, MAX_FAILURE_BYTES, MAX_FORWARD_TOKENS,
    MAX_INPUT_BYTES, MAX_STOP_BYTES, MAX_STOPS, MAX_TEXT_BYTES, Pull, PullPart, Sampling,
};
pub use member::{
    Certificate, CertificateChain, MAX_TICKET_ADDRESSES, MemberError, Role, TICKET_PREFIX, Ticket, TicketId,
    TicketSecret, verify_signature,
};
pub use model::{MAX_NAME_BYTES, ModelInfo};
pub use plan::{
    Generation, MAX_WEIGHED_PER_PLAN, MoveTerms, Plan, PlanReason, PlanRefusal, PlanRefused, PlanStep, PlanTerms,
    PreparationTerms, Veto, Way,
};
pub use report::{RequestReport, RequestStage, Standby, StandbyState};
pub use times::{MoveTimes, QuantisedTime};
pub use version::{Protocol, Version, VersionRange, negotiate};
