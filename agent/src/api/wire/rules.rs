//! Pausing, and what the rules say.

use idlewild_protocol::DepartureCause;
use serde::{Deserialize, Serialize};

/// Pauses this machine: no work until it is resumed, or for a while. `POST /idlewild/v1/resume` takes no body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRequest {
    /// Seconds (1 to 31536000); none: until it is resumed.
    #[serde(default)]
    pub for_s: Option<u64>,
}

/// What holds from now on, also after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseReply {
    /// Whether this machine is paused.
    pub is_paused: bool,
    /// Seconds since 1970 until which; none where it has no end of its own.
    pub until_s: Option<u64>,
}

/// What `idlewild rules` shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesReply {
    /// Whether this machine takes work now.
    pub takes_work: bool,
    /// Every reason that holds, in words.
    pub reason: String,
    /// What decides: a rule's key, `the owner`, or that the machine leaves; none while it takes work.
    pub decides: Option<String>,
    /// Every rule, in force or not.
    pub rules: Vec<RuleReply>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleReply {
    /// The key that sets it.
    pub key: String,
    /// What was seen, in words.
    pub seen: String,
    /// What may be, in words.
    pub limit: String,
    /// How the one stands to the other.
    pub standing: StandingWord,
    /// Whether it forbids work now: it is broken, or was a moment ago.
    pub forbids: bool,
    /// Whether it is the one that has forbidden for longest.
    pub decides: bool,
    /// What a session ends of that it ends.
    pub cause: DepartureCause,
}

/// How a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingWord {
    /// It is not in force, or does not apply now.
    Off,
    /// What it is about cannot be seen: it forbids nothing.
    Unknown,
    /// It permits.
    Fine,
    /// It permits, but too narrowly to lift a suspension.
    Near,
    /// It forbids.
    Broken,
}
