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

/// How keys and values are kept. Contexts travel between engines that keep them alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub enum KvType {
    /// Two bytes a value.
    #[default]
    F16,
    /// A little over one: half the memory and half the bytes of a move, but slower to read on a CPU.
    Q8,
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
    /// Threads that compute; 0 is one fewer than there are cores, at least one.
    ///
    /// llama.cpp's threads wait for each other by spinning, some hundred times a token. Where one of them does not get a
    /// core, the others burn theirs: two threads on two cores beside one busy program decoded 3 tokens a second, one
    /// thread 66. So a core is left to the owner's programs, and more threads than free cores are never worth it.
    pub threads: u16,
    /// Sequences that run at once (1 to [`MAX_SLOTS`]; other values are clamped).
    pub slots: u16,
    /// Most tokens of one sequence, prompt and output; less where the model was trained for less.
    pub context_tokens: u32,
    /// Tokens of the KV cache that all sequences share; raised to `context_tokens` where it is less.
    pub kv_tokens: u32,
    /// How the KV cache keeps them.
    pub kv_type: KvType,
}

impl EngineConfig {
    /// The part that the child is told.
    pub(crate) fn limits(&self) -> Limits {
        let context_tokens = self.context_tokens.max(MIN_CONTEXT_TOKENS);
        Limits {
            threads: if self.threads == 0 { spare_cores() } else { self.threads },
            slots: self.slots.clamp(1, MAX_SLOTS),
            context_tokens,
            kv_tokens: self.kv_tokens.max(context_tokens),
            kv_type: self.kv_type,
        }
    }
}

fn spare_cores() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u16::try_from(cores.saturating_sub(1).max(1)).unwrap_or(u16::MAX)
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
    pub(crate) kv_type: KvType,
}

/// Contexts at which a token takes twice as long as at an empty one, in tokens; 0 where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct DoublesAt {
    /// Of a decoded token, while nothing else runs.
    pub decode: u16,
    /// Of a prompt token.
    pub prefill: u16,
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
    /// What earlier runs have learnt of long contexts: what is assumed until this one has seen some.
    pub doubles_at: DoublesAt,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(threads: u16, slots: u16, context_tokens: u32, kv_tokens: u32) -> EngineConfig {
        EngineConfig {
            program: PathBuf::new(),
            arguments: Vec::new(),
            backend: Backend::Llama,
            threads,
            slots,
            context_tokens,
            kv_tokens,
            kv_type: KvType::F16,
        }
    }

    #[test]
    fn limits_are_brought_into_range() {
        let cases = [
            (config(3, 4, 2048, 8192), (3, 4, 2048, 8192)),
            (config(3, 0, 10, 0), (3, 1, MIN_CONTEXT_TOKENS, MIN_CONTEXT_TOKENS)),
            (config(3, 1000, 2048, 100), (3, MAX_SLOTS, 2048, 2048)),
        ];
        for (config, expected) in cases {
            let Limits { threads, slots, context_tokens, kv_tokens, .. } = config.limits();
            assert_eq!((threads, slots, context_tokens, kv_tokens), expected, "{config:?}");
        }
    }

    #[test]
    fn a_core_is_left_to_the_owner() {
        let cores = std::thread::available_parallelism().unwrap().get();
        let threads = usize::from(config(0, 1, 100, 100).limits().threads);
        assert!(threads >= 1 && (threads < cores || cores == 1), "{threads} of {cores}");
    }
}
