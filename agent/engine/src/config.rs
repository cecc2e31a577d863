//! What an engine is started with.

use std::path::PathBuf;

use bincode::{Decode, Encode};
use idlewild_protocol::ModelId;

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode)]
pub enum Backend {
    /// llama.cpp.
    Llama,
    /// Pseudo-text at set rates, for tests and simulations: see `fake.rs` for what its prompts can ask for.
    Fake(FakeRates),
}

/// How fast the fake is.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode)]
pub struct FakeRates {
    /// Prompt tokens a second; 0 or infinite takes no time.
    pub prefill_tps: f32,
    /// Steps a second, each one token for every decoding sequence; 0 or infinite takes no time.
    pub decode_tps: f32,
    /// Milliseconds that a load takes.
    pub load_ms: u32,
}

impl FakeRates {
    /// Takes no time at all.
    pub const INSTANT: Self = Self { prefill_tps: 0.0, decode_tps: 0.0, load_ms: 0 };
}

/// Most sequences that may run at once. Above it a CPU gains nothing (measured: eight is near the ceiling).
pub const MAX_SLOTS: u16 = 32;

/// How to run the child, and what it may use.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// The program that runs [`crate::child_main`]: the agent's own binary.
    pub program: PathBuf,
    /// Its arguments (`engine`).
    pub arguments: Vec<String>,
    /// What computes.
    pub backend: Backend,
    /// Threads that compute; 0 is as many as there are cores.
    pub threads: u16,
    /// Sequences that run at once (1 to [`MAX_SLOTS`]; other values are clamped).
    pub slots: u16,
    /// Most tokens of one sequence, prompt and output; less where the model was trained for less.
    pub context_tokens: u32,
    /// Tokens of the KV cache that all sequences share; raised to `context_tokens` where it is less.
    pub kv_tokens: u32,
}

impl EngineConfig {
    /// The part that the child is told.
    pub(crate) fn limits(&self) -> Limits {
        let cores = std::thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX));
        let context_tokens = self.context_tokens.max(MIN_CONTEXT_TOKENS);
        Limits {
            threads: if self.threads == 0 { cores } else { self.threads },
            slots: self.slots.clamp(1, MAX_SLOTS),
            context_tokens,
            kv_tokens: self.kv_tokens.max(context_tokens),
        }
    }
}

/// A context shorter than this holds no chat template and answer.
const MIN_CONTEXT_TOKENS: u32 = 64;

/// What the child may use. Always in range: made by [`EngineConfig::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Limits {
    pub(crate) threads: u16,
    pub(crate) slots: u16,
    pub(crate) context_tokens: u32,
    pub(crate) kv_tokens: u32,
}

/// A model on disk.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ModelFile {
    /// Where.
    pub path: PathBuf,
    /// The SHA-256 that it is known by.
    pub id: ModelId,
    /// Whether to compute that hash before use (the caller remembers files whose hash was checked and that have not
    /// changed since).
    pub verify: bool,
    /// What people call it.
    pub name: String,
}
