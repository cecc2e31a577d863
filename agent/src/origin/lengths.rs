//! How long answers tend to be: the median of a model's last answers, capped by what the client allows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use idlewild_protocol::ModelId;

/// Answers that are remembered of each model. A median over fewer jumps; over more it is slow to follow new habits.
const KEPT: usize = 64;

/// Models that are remembered; beyond it the one with the smallest id is forgotten.
const MODELS: usize = 64;

/// Tokens to expect before a model has answered.
const PRIOR_TOKENS: u32 = 200;

/// Bytes of UTF-8 a token stands for, roughly, in European languages (others take fewer).
const BYTES_PER_TOKEN: usize = 4;

/// Tokens that a chat template adds.
const TEMPLATE_TOKENS: usize = 16;

/// Remembers lengths.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    by_model: Mutex<BTreeMap<ModelId, VecDeque<u32>>>,
}

impl Lengths {
    /// Tokens to expect of the next answer.
    pub(super) fn expect(&self, model: ModelId, max_tokens: u32) -> u32 {
        let by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        let median = by_model.get(&model).and_then(|lengths| {
            let mut sorted: Vec<u32> = lengths.iter().copied().collect();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).copied()
        });
        median.unwrap_or(PRIOR_TOKENS).clamp(1, max_tokens.max(1))
    }

    /// An answer has come to its end by itself.
    pub(super) fn saw(&self, model: ModelId, output_tokens: u32) {
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        let lengths = by_model.entry(model).or_default();
        if lengths.len() == KEPT {
            lengths.pop_front();
        }
        lengths.push_back(output_tokens);
        if by_model.len() > MODELS {
            by_model.pop_first();
        }
    }
}

/// Tokens of a prompt of `bytes`, before a tokenizer has counted them.
pub(super) fn prompt_tokens(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_TOKEN + TEMPLATE_TOKENS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelId = ModelId([1; 32]);

    #[test]
    fn the_median_of_the_last_answers_is_expected_within_what_is_allowed() {
        let lengths = Lengths::default();
        assert_eq!(lengths.expect(MODEL, 1000), PRIOR_TOKENS);
        for tokens in [10, 500, 30] {
            lengths.saw(MODEL, tokens);
        }
        assert_eq!(lengths.expect(MODEL, 1000), 30);
        assert_eq!(lengths.expect(MODEL, 16), 16);
        for _ in 0..KEPT {
            lengths.saw(MODEL, 70);
        }
        assert_eq!(lengths.expect(MODEL, 1000), 70);
    }
}
