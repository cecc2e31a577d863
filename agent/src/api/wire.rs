//! The shapes that the command line and the agent exchange as JSON, and that `--json` prints.
//!
//! | route (all with `Authorization: Bearer <key>`) | asks with | answers with |
//! |---|---|---|
//! | `GET /idlewild/v1/status` | | [`StatusReply`] |
//! | `GET /idlewild/v1/doctor` | | [`DoctorReply`] |
//! | `GET /idlewild/v1/explain/{request}` | | [`ExplainReply`] |
//! | `GET /idlewild/v1/requests` | | [`RequestsReply`] |
//! | `POST /idlewild/v1/move` | [`MoveRequest`] | [`MoveReply`], once the first step is taken |
//! | `GET /idlewild/v1/hazard` | | [`HazardReply`] |
//! | `POST /idlewild/v1/hazard` | | [`HazardReply`], once the sessions on record have been read anew |
//! | `POST /idlewild/v1/invite` | [`InviteRequest`] | [`InviteReply`] |
//! | `GET /idlewild/v1/models` | | [`ModelsReply`] |
//! | `POST /idlewild/v1/models` | | [`ModelsReply`], once the models on disk have been read anew |
//! | `GET /idlewild/v1/rules` | | [`RulesReply`] |
//! | `POST /idlewild/v1/pause` | [`PauseRequest`] | [`PauseReply`], once it is on the disk |
//! | `POST /idlewild/v1/resume` | | [`PauseReply`], once it is on the disk |
//! | `POST /idlewild/v1/stop` | | [`StopReply`], then the agent stops as on SIGTERM |
//!
//! A refusal has OpenAI's form, [`ErrorReply`], and an HTTP status of 400 or more. A generation's answer carries the
//! request's id in the header [`REQUEST_HEADER`], before its first token.
//!
//! Fields may be added; none is renamed or removed while the routes are version 1.

mod doctor;
mod hazard;
mod moves;
mod rules;
mod system;

use idlewild_protocol::{
    BootId, DepartureCause, Epoch, FinishReason, ModelId, ModelInfo, ModelLoad, PeerId, PeerState, PeerTerms,
    RequestId, Role, SwarmId, Term,
};
use serde::{Deserialize, Serialize};

pub use doctor::{DoctorReply, LayerReply, Sees};
pub use hazard::{CalibrationReply, CurvePoint, HazardReply, LeavesReply, ReliabilityReply};
pub use moves::{MeasuredMove, MoveRecord, MoveReply, MoveRequest, OverheadReply, OverheadsReply, StandbyReply};
pub use rules::{PauseReply, PauseRequest, RuleReply, RulesReply, StandingWord};
pub use system::SystemReply;

/// The header of a generation's answer that names its request: what `idlewild explain` takes.
pub const REQUEST_HEADER: &str = "x-idlewild-request";

/// How a comment of a streamed answer begins that says how many tokens of the prompt are read, of how many:
/// `: reading 512 5031`.
pub const READING: &str = "reading";

/// What `idlewild status` shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReply {
    /// Of the agent's binary.
    pub version: String,
    /// This peer.
    pub peer: PeerId,
    /// This life of its process.
    pub boot: BootId,
    /// Its swarm.
    pub swarm: SwarmId,
    /// Its role there.
    pub role: Role,
    /// Seconds since the agent started.
    pub uptime_s: u64,
    /// Whether it takes work.
    pub state: PeerState,
    /// Why, in words: what the owner source or a rule says.
    pub reason: String,
    /// Seconds since its session began; none outside a session.
    pub session_age_s: Option<u64>,
    /// Finished sessions on record here: what its survival curve is made of.
    pub sessions_recorded: u64,
    /// Where its HTTP API listens, `address:port`.
    pub api: String,
    /// Where it listens for peers, as multiaddresses.
    pub listeners: Vec<String>,
    /// Who coordinates, as far as it knows.
    pub coordinator: Option<CoordinatorReply>,
    /// Its engine.
    pub engine: EngineReply,
    /// Models on its disk.
    pub models: Vec<ModelInfo>,
    /// Models that some connected peer has (this one too), by the names that they go by here.
    #[serde(default)]
    pub known_models: Vec<ModelInfo>,
    /// Requests that it originated and that run now.
    pub requests_running: u32,
    /// Requests of others (or its own) that it works on now.
    pub jobs_running: u32,
    /// What moves and losses take, as measured here and as decisions go by it.
    #[serde(default)]
    pub overheads: OverheadsReply,
    /// The others, nearest first.
    pub peers: Vec<PeerReply>,
    /// What the user should know and act on, such as a full disk.
    pub warnings: Vec<String>,
}

/// Who coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorReply {
    /// The election that it won.
    pub term: Term,
    /// Who.
    pub leader: PeerId,
}

/// The engine of this agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineReply {
    /// `absent`, `starting`, `loading`, `ready` or `backing_off`.
    pub phase: String,
    /// Of its process, while there is one.
    pub pid: Option<u32>,
    /// The loaded model.
    pub model: Option<ModelId>,
    /// Requests that run.
    pub running: u16,
    /// Requests that wait.
    pub waiting: u16,
    /// Requests that may run at once.
    pub slots: u16,
    /// Decoded tokens a second for one more request, measured; 0 before the first measurement.
    pub decode_tps: f32,
    /// Prefilled tokens a second, measured; 0 before the first measurement.
    pub prefill_tps: f32,
    /// Context, in tokens, at which one more request decodes half as fast; 0 before the first measurement.
    #[serde(default)]
    pub decode_doubles_at: u16,
    /// The same of prompt tokens.
    #[serde(default)]
    pub prefill_doubles_at: u16,
    /// How often its process had to be started again.
    pub restarts: u32,
}

/// Another peer, as this one sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerReply {
    /// Who.
    pub peer: PeerId,
    /// Whether there is a connection; otherwise what is shown came by way of others.
    pub connected: bool,
    /// Its role, known when connected.
    pub role: Option<Role>,
    /// The address of the connection.
    pub address: Option<String>,
    /// Whether all that is said to it passes through another member, since no direct way is known.
    pub relayed: bool,
    /// Seconds for which it has been connected.
    pub connected_for_s: Option<u64>,
    /// Round trip in microseconds.
    pub rtt_us: Option<u32>,
    /// Bytes a second towards it, measured.
    pub up_bytes_per_s: Option<u64>,
    /// Bytes a second from it, measured.
    pub down_bytes_per_s: Option<u64>,
    /// Whether it takes work; none before its first digest.
    pub state: Option<PeerState>,
    /// Seconds since its session began, as it says.
    pub age_s: u32,
    /// Probability that its session lasts another 60 s, as it says.
    pub stays_60s: Option<f64>,
    /// Probability that its session lasts another 15 minutes, as it says.
    pub stays_15min: Option<f64>,
    /// What its models would cost.
    pub models: Vec<ModelLoad>,
}

/// Why a request ran where it ran. Also what is kept of it on disk: no word of the prompt or the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainReply {
    /// Which.
    pub request: RequestId,
    /// The model.
    pub model: ModelId,
    /// What it is called.
    pub model_name: String,
    /// Seconds since 1970 when it was accepted.
    pub accepted_s: u64,
    /// Milliseconds until its end; none while it runs.
    pub took_ms: Option<u64>,
    /// Milliseconds until its first token.
    pub first_token_ms: Option<u64>,
    /// Tokens of the prompt; none before a worker counted them.
    pub prompt_tokens: Option<u32>,
    /// Tokens of the answer so far.
    pub output_tokens: u32,
    /// How it ended; none while it runs and where it failed.
    pub finish: Option<FinishReason>,
    /// Why it failed.
    pub error: Option<String>,
    /// Where it ran, in order.
    pub assignments: Vec<AssignmentReply>,
    /// Who stands by to take it over, while it runs.
    #[serde(default)]
    pub standby: Option<StandbyReply>,
    /// What was planned for it, in order: the latest 64 plans, followed or not.
    #[serde(default)]
    pub moves: Vec<MoveRecord>,
}

/// One assignment of a request to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssignmentReply {
    /// Its number.
    pub epoch: Epoch,
    /// Who worked.
    pub worker: PeerId,
    /// Who would have taken over.
    pub fallback: Option<PeerId>,
    /// Who decided: the coordinator, or the origin where none was visible.
    pub decided_by: PeerId,
    /// Of the decider.
    pub term: Term,
    /// The first token that was this worker's.
    pub from_index: u32,
    /// How it ended, in words; none while it runs.
    pub ended: Option<String>,
    /// Set where the worker left.
    pub cause: Option<DepartureCause>,
    /// What running it on each peer would have cost, best first: the chosen one and the rejected.
    pub terms: Vec<PeerTerms>,
    /// What it took to go on there, planned or not: the pause before its first token, and the KV cache that it pulled, by
    /// its word since it was the worker. None of the first one.
    #[serde(default)]
    pub measured: Option<MeasuredMove>,
}

/// The last requests that this peer originated, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestsReply {
    /// They.
    pub requests: Vec<ExplainReply>,
}

/// Asks for an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteRequest {
    /// Seconds for which the ticket counts (60 to 604800).
    pub ttl_s: u64,
}

/// An invitation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteReply {
    /// The ticket's text. A secret until it is used.
    pub ticket: String,
    /// Seconds since 1970 after which it does not count.
    pub not_after_s: u64,
    /// Where the newcomer will look for this peer.
    pub addresses: Vec<String>,
}

impl std::fmt::Debug for InviteReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InviteReply").field("not_after_s", &self.not_after_s).finish_non_exhaustive()
    }
}

/// The models of this peer and of the swarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelsReply {
    /// Each once, by name.
    pub models: Vec<ModelReply>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The file's sha256.
    pub id: ModelId,
    /// Its name here; the name that others use where only they have it.
    pub name: String,
    /// Bytes of the file.
    pub size_bytes: Option<u64>,
    /// Tokens of context, prompt and answer, that a request may have at the peer that allows most.
    pub context_tokens: Option<u32>,
    /// Whether it is on this peer's disk.
    pub here: bool,
    /// Peers (this one too) that take work and could run it.
    pub peers: Vec<PeerId>,
}

/// The agent has begun to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReply {
    /// Its process, which ends soon.
    pub pid: u32,
}

/// A refusal in OpenAI's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReply {
    /// It.
    pub error: ErrorBody,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// For people.
    pub message: String,
    /// A class, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For programs: see [`code`].
    #[serde(default)]
    pub code: Option<String>,
    /// The parameter at fault.
    #[serde(default)]
    pub param: Option<String>,
}

/// Values of [`ErrorBody::code`] on which the command line's exit code depends.
pub mod code {
    /// No peer can serve the request now.
    pub const NO_PEER: &str = "no_peer";
    /// No such model here or in the swarm.
    pub const MODEL_NOT_FOUND: &str = "model_not_found";
    /// The prompt is longer than any peer's context.
    pub const CONTEXT_LENGTH: &str = "context_length_exceeded";
    /// A parameter is out of its range.
    pub const INVALID_VALUE: &str = "invalid_value";
    /// The key is missing or wrong.
    pub const BAD_KEY: &str = "invalid_api_key";
    /// No such request on record.
    pub const UNKNOWN_REQUEST: &str = "unknown_request";
    /// No such peer is known.
    pub const UNKNOWN_PEER: &str = "unknown_peer";
    /// The request cannot be moved there now.
    pub const CANNOT_MOVE: &str = "cannot_move";
    /// This peer may not invite.
    pub const MAY_NOT_INVITE: &str = "may_not_invite";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_does_not_print_its_secret() {
        let reply = InviteReply { ticket: "idlewild1secret".into(), not_after_s: 1, addresses: vec![] };
        assert!(!format!("{reply:?}").contains("secret"));
    }

    #[test]
    fn refusals_have_the_form_of_openai() {
        let text = r#"{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found","param":null}}"#;
        let reply: ErrorReply = serde_json::from_str(text).unwrap();
        assert_eq!(reply.error.code.as_deref(), Some(code::MODEL_NOT_FOUND));
        assert_eq!(serde_json::to_value(&reply).unwrap(), serde_json::from_str::<serde_json::Value>(text).unwrap());
    }
}
