//! What an engine says about itself.

use std::time::Duration;

use bincode::{Decode, Encode};
use idlewild_protocol::{LayoutFingerprint, ModelId};
use serde::{Deserialize, Serialize};

/// Where the child is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnginePhase {
    /// No child, and no memory used: none was asked for yet, or it was stopped.
    #[default]
    Absent,
    /// A child starts, or runs without a model.
    Starting,
    /// A model is being loaded.
    Loading,
    /// It takes work.
    Ready,
    /// The child died and is started again after a pause.
    BackingOff,
}

/// A model in memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct LoadedModel {
    /// The SHA-256 of its file.
    pub id: ModelId,
    /// What people call it.
    pub name: String,
    /// Most tokens of one sequence, prompt and output.
    pub context_tokens: u32,
    /// Tokens of context that it was trained for.
    pub trained_context_tokens: u32,
    /// Bytes of KV cache that a token takes on the wire.
    pub kv_bytes_per_token: u32,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Milliseconds that loading took, the file's check and the warm-up included.
    pub load_ms: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// Layers.
    pub layers: u32,
    /// How its KV cache is laid out; none where contexts of it do not travel.
    #[serde(skip)]
    pub layout: Option<LayoutFingerprint>,
}

/// An engine at one moment. Changes are published at once, rates at most once a second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EngineStats {
    /// The child's process id.
    pub pid: Option<u32>,
    /// Where it is in its life.
    pub phase: EnginePhase,
    /// The model in memory.
    pub model: Option<LoadedModel>,
    /// Sequences that have a slot and are no standbys.
    pub running: u16,
    /// Sequences that wait for a slot or for KV room.
    pub waiting: u16,
    /// Standbys that have a slot. They make room for a job that finds none.
    pub standbys: u16,
    /// Sequences that may run at once.
    pub slots: u16,
    /// Tokens that the KV cache holds.
    pub kv_tokens: u32,
    /// Of which no sequence has reserved.
    pub kv_free_tokens: u32,
    /// Of which standbys have reserved: free for a job that needs them.
    pub standby_tokens: u32,
    /// Tokens a second that one more sequence would decode at an empty context, measured; 0 before a model is loaded.
    pub decode_tps: f32,
    /// Prompt tokens a second at an empty context, measured; 0 before a model is loaded.
    pub prefill_tps: f32,
    /// Context, in tokens, at which one more sequence decodes half as fast; 0 before a model is loaded.
    pub decode_doubles_at: u16,
    /// The same of prompt tokens.
    pub prefill_doubles_at: u16,
    /// Times that a child died unasked.
    pub restarts: u32,
}

/// What befell the child. Material for the log and for `status`; the engine has acted already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineNotice {
    /// It died unasked. Its sequences have failed with `JobFailure::Engine`.
    Exited {
        /// Which process; none where the engine runs on a thread.
        pid: Option<u32>,
        /// Its exit code or signal, in words.
        how: String,
        /// When it is started again; none where it is started when next asked for.
        restart_in: Option<Duration>,
    },
    /// It runs again, with the model that it had.
    Restarted {
        /// The new process; none where the engine runs on a thread.
        pid: Option<u32>,
    },
    /// It died too often in a row and stays away until the next `load` or `submit`.
    GaveUp,
}
