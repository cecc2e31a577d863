//! The model families whose contexts travel.
//!
//! A family is certified by the tests in `llama_move_tests.rs`: 64 greedy tokens after a move are those without one, also
//! around its sliding window. A family that is not here moves by ids, which is always right and takes a prefill.

/// A certified family.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The GGUF's `general.architecture`.
    pub(crate) architecture: &'static str,
    /// Whether some of its layers have a sliding window: its state then has two caches.
    pub(crate) has_window: bool,
}

/// Tested with SmolLM2-135M-Instruct and Gemma 3 270M. Recurrent and hybrid families can never be here: their state is not
/// one of positions.
const CERTIFIED: [Family; 2] =
    [Family { architecture: "llama", has_window: false }, Family { architecture: "gemma3", has_window: true }];

/// The family of an architecture, if it is certified.
pub(crate) fn family(architecture: &str) -> Option<&'static Family> {
    CERTIFIED.iter().find(|family| family.architecture == architecture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_tested_is_certified() {
        assert_eq!(family("llama").map(|family| family.has_window), Some(false));
        assert_eq!(family("gemma3").map(|family| family.has_window), Some(true));
        for other in ["", "Llama", "llama4", "gemma2", "gemma3n", "mamba", "jamba", "qwen3next", "lfm2", "deepseek2"] {
            assert_eq!(family(other), None, "{other}");
        }
    }
}
