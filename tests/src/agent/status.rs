//! What an agent says about itself, as a program would read it: only the fields that tests look at.

use serde::Deserialize;
use serde_json::Value;

/// `GET /idlewild/v1/status`.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// Itself.
    pub peer: String,
    /// This life of its process.
    pub boot: u64,
    /// Its swarm.
    pub swarm: String,
    /// Whether it takes work: `{"state": "serving"}` and so on.
    pub state: Value,
    /// Why, in words.
    pub reason: String,
    /// Where its API listens.
    pub api: String,
    /// Where it listens for peers.
    pub listeners: Vec<String>,
    /// Who coordinates.
    pub coordinator: Option<Leader>,
    /// Its engine.
    pub engine: Engine,
    /// Requests that it originated and that run.
    pub requests_running: u32,
    /// Requests that it works on.
    pub jobs_running: u32,
    /// What moves take.
    pub overheads: MoveOverheads,
    /// The others.
    pub peers: Vec<PeerStatus>,
    /// What the user should act on.
    pub warnings: Vec<String>,
}

/// What moves take, as measured and as decisions go by it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct MoveOverheads {
    /// From the source's last token to the destination's first.
    pub hand_off: MoveOverhead,
    /// From a prepare to the first KV cache.
    pub transfer: MoveOverhead,
    /// From a prepare to the first token that was prefilled.
    pub recompute: MoveOverhead,
    /// Until a lost worker is known to be lost.
    pub detection: MoveOverhead,
}

/// One of them.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct MoveOverhead {
    /// How often it was measured there.
    pub measured: u32,
    /// The median, in seconds.
    pub median_s: Option<f64>,
    /// What decisions go by, in seconds.
    pub used_s: f64,
}

/// Who coordinates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Leader {
    /// Of its election.
    pub term: u64,
    /// Who.
    pub leader: String,
}

/// An agent's engine.
#[derive(Debug, Clone, Deserialize)]
pub struct Engine {
    /// `absent`, `starting`, `loading`, `ready`, `backing_off`.
    pub phase: String,
    /// Its process.
    pub pid: Option<u32>,
    /// The loaded model.
    pub model: Option<String>,
    /// Requests that run in it.
    pub running: u16,
    /// Requests that wait for it.
    pub waiting: u16,
    /// How often it was started again.
    pub restarts: u32,
    /// Decoded tokens a second for one more request, measured.
    pub decode_tps: f32,
    /// Prefilled tokens a second, measured.
    pub prefill_tps: f32,
    /// Context at which one more request decodes half as fast.
    pub decode_doubles_at: u16,
    /// The same of prompt tokens.
    pub prefill_doubles_at: u16,
}

/// Another peer.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerStatus {
    /// Who.
    pub peer: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// The address of the connection.
    pub address: Option<String>,
    /// Whether another peer passes on all that is said to it.
    #[serde(default)]
    pub relayed: bool,
    /// How long there has been one, in seconds.
    pub connected_for_s: Option<u64>,
    /// Round trip in microseconds.
    pub rtt_us: Option<u32>,
    /// Bytes a second from it, measured.
    pub down_bytes_per_s: Option<u64>,
    /// Whether it takes work; none before its first digest.
    pub state: Option<Value>,
    /// What its models would cost.
    pub models: Vec<Value>,
}

impl Status {
    /// The others that it is connected to.
    pub fn connected(&self) -> impl Iterator<Item = &PeerStatus> {
        self.peers.iter().filter(|peer| peer.connected)
    }

    /// What it believes of one of the others.
    pub fn of(&self, peer: &str) -> Option<&PeerStatus> {
        self.peers.iter().find(|other| other.peer == peer)
    }

    /// Whether it is connected to `peer`.
    pub fn sees(&self, peer: &str) -> bool {
        self.of(peer).is_some_and(|other| other.connected)
    }

    /// The word for whether it takes work.
    pub fn state(&self) -> &str {
        self.state["state"].as_str().unwrap_or_default()
    }
}

impl PeerStatus {
    /// Whether it is connected, takes work, and has a model: it can be placed on.
    pub fn is_serving(&self) -> bool {
        let state = self.state.as_ref().and_then(|state| state["state"].as_str());
        self.connected && state == Some("serving") && !self.models.is_empty()
    }
}

/// `GET /idlewild/v1/explain/{request}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Explanation {
    /// Milliseconds until its first token.
    pub first_token_ms: Option<u64>,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// How it ended.
    pub finish: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Where it ran, in order.
    pub assignments: Vec<Assignment>,
    /// Who stands by to take it over.
    pub standby: Option<Standby>,
    /// The steps of planned moves, in order.
    pub moves: Vec<MoveStep>,
}

impl Explanation {
    /// Whether the first worker left for this cause: by its own word, unless a coordinator's was first, which had heard its notice.
    pub fn first_left(&self, cause: &str) -> bool {
        let said = self.assignments.first().and_then(|first| first.cause.as_deref());
        let is_noticed = self.moves.iter().any(|step| step.terms["reason"] == "notice");
        said == Some(cause) || (said.is_none() && is_noticed)
    }
}

/// A destination.
#[derive(Debug, Clone, Deserialize)]
pub struct Standby {
    /// Tokens of the context that it lacks.
    pub lag_tokens: u32,
}

/// One step of a planned move.
#[derive(Debug, Clone, Deserialize)]
pub struct MoveStep {
    /// Which: `{"prepare": {"destination": ..., "way": ...}}` and so on.
    pub step: Value,
    /// Who decided.
    pub decided_by: String,
    /// Why, with the figures that decided.
    pub terms: Value,
    /// Why it was not followed; none where it was.
    pub refused: Option<Value>,
    /// What it took.
    pub measured: Option<MeasuredMove>,
}

/// What a move took, as its origin measured it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct MeasuredMove {
    /// Milliseconds until the destination kept up.
    pub ready_ms: Option<u64>,
    /// Milliseconds from the last token of the one to the first of the other.
    pub stall_ms: Option<u64>,
    /// Bytes of KV cache that travelled.
    pub bytes: Option<u64>,
    /// Tokens whose KV cache travelled.
    pub pulled_tokens: Option<u32>,
}

/// One assignment.
#[derive(Debug, Clone, Deserialize)]
pub struct Assignment {
    /// Its number.
    pub epoch: u32,
    /// Who worked.
    pub worker: String,
    /// Who would have taken over.
    pub fallback: Option<String>,
    /// Who decided.
    pub decided_by: String,
    /// The first token that was this worker's.
    pub from_index: u32,
    /// How it ended.
    pub ended: Option<String>,
    /// Why its worker left.
    pub cause: Option<String>,
    /// What it would have cost on each peer.
    pub terms: Vec<Terms>,
    /// What it took to go on there.
    pub measured: Option<MeasuredMove>,
}

/// What a request would cost on one peer.
#[derive(Debug, Clone, Deserialize)]
pub struct Terms {
    /// The peer.
    pub peer: String,
    /// Why it cannot take it.
    pub unfit: Option<String>,
    /// Seconds before it would start.
    pub wait_s: f64,
    /// Seconds of prefill and decoding.
    pub service_s: f64,
    /// Seconds lost to its departure, in expectation.
    pub loss_s: f64,
}
