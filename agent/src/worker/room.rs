//! Whether a model would fit into the memory, before it is loaded: a refusal with numbers, and not the kernel's.

use std::fmt;

use idlewild_engine::WAITING_CHUNKS_BYTES_MAX;
use idlewild_protocol::ModelInfo;

use super::loads::Guess;

/// The engine's program, its buffers for a batch and its vocabulary, in bytes: an allowance. SmolLM2-135M took 36 MB beside
/// its file and its KV cache; wider models and larger vocabularies take more.
const BESIDES_BYTES: u64 = 200_000_000;

/// Bytes of the file to a byte of KV cache for a token, where nothing was measured: 4000 for a model of 135M (23 kB a token
/// of 99 MB), 38000 for one of 8B (128 kB of 4.9 GB). The lower figure, since the other error ends with nothing loaded.
const FILE_BYTES_PER_KV_BYTE: u64 = 4000;

/// What one token's KV cache takes at most where that is guessed: a model of 70B without grouped heads.
const KV_BYTES_MOST: u64 = 320_000;

/// Says whether there is memory.
pub trait MemoryRoom: fmt::Debug + Send + Sync {
    /// Bytes that an engine may take now, in place of the one that there is; none where that is not known, or anything is
    /// permitted. Reads a few files of the kernel's.
    fn free_bytes(&self) -> Option<FreeRoom>;
}

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeRoom {
    /// An engine may take so much.
    pub bytes: u64,
    /// Of all memory that this machine, or the control group of this agent, has.
    pub total_bytes: u64,
    /// Percent of it that may be in use (`rules.ram_idle_percent`).
    pub percent: u32,
}

/// What a model takes in memory once it is loaded, in bytes: its file, the KV cache of all contexts, the parts of contexts that
/// wait to be taken into it (never more than it has room for), and what there is besides.
pub(super) fn need_bytes(model: &ModelInfo, kv_bytes_per_token: u32, guess: &Guess) -> u64 {
    let guessed = (model.size_bytes / FILE_BYTES_PER_KV_BYTE).min(KV_BYTES_MOST);
    let per_token = if kv_bytes_per_token > 0 { u64::from(kv_bytes_per_token) } else { guessed };
    let kv_bytes = per_token.saturating_mul(u64::from(guess.kv_tokens));
    let waiting_bytes = kv_bytes.min(WAITING_CHUNKS_BYTES_MAX);
    model.size_bytes.saturating_add(kv_bytes).saturating_add(waiting_bytes).saturating_add(BESIDES_BYTES)
}

/// Why a model that needs so much is not loaded; none where it fits.
pub(super) fn refusal(model: &ModelInfo, need: u64, room: FreeRoom) -> Option<String> {
    let mb = |bytes: u64| bytes / 1_000_000;
    (need > room.bytes).then(|| {
        format!(
            "{} needs about {} MB of memory ({} MB of it its file) and {} MB may be taken: {} % of {} MB may be in use \
             (rules.ram_idle_percent); choose a smaller model, or lower engine.kv_tokens",
            model.name,
            mb(need),
            mb(model.size_bytes),
            mb(room.bytes),
            room.percent,
            mb(room.total_bytes),
        )
    })
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::ModelId;

    use super::*;

    const GUESS: Guess = Guess { rates: None, context_tokens: 4096, kv_tokens: 8192, slots: 4 };

    fn model(size_bytes: u64) -> ModelInfo {
        ModelInfo { id: ModelId([1; 32]), name: "m".to_owned(), size_bytes, context_tokens: 4096 }
    }

    #[test]
    fn a_model_needs_its_file_its_contexts_and_what_there_is_besides() {
        let waiting = WAITING_CHUNKS_BYTES_MAX;
        let cases = [
            (99_000_000, 23_000, 99_000_000 + 2 * 23_000 * 8192),
            (100_000_000, 0, 100_000_000 + 2 * 25_000 * 8192),
            (5_000_000_000, 128_000, 5_000_000_000 + 128_000 * 8192 + waiting),
            (40_000_000_000, 0, 40_000_000_000 + 320_000 * 8192 + waiting),
        ];
        for (size, per_token, expected) in cases {
            assert_eq!(need_bytes(&model(size), per_token, &GUESS), expected + BESIDES_BYTES, "{size} {per_token}");
        }
        assert_eq!(need_bytes(&model(u64::MAX), 9, &GUESS), u64::MAX);
    }

    #[test]
    fn one_that_does_not_fit_is_refused_with_the_numbers() {
        let room = FreeRoom { bytes: 500_000_000, total_bytes: 1_000_000_000, percent: 90 };
        assert_eq!(refusal(&model(100_000_000), 500_000_000, room), None);
        let text = refusal(&model(400_000_000), 800_000_000, room).unwrap();
        for part in ["m needs about 800 MB", "500 MB may be taken", "90 % of 1000 MB", "rules.ram_idle_percent"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
