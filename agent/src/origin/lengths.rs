//! How long answers tend to be, by model and length of prompt, as far as this peer's own requests show.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idlewild_coordinator::length::{Answer, LengthEstimate, LengthHistory};
use idlewild_protocol::ModelId;

/// Bytes of UTF-8 a token stands for, roughly, in European languages (others take fewer).
const BYTES_PER_TOKEN: usize = 4;

/// Tokens that a chat template adds.
const TEMPLATE_TOKENS: usize = 16;

/// Clients are not told apart: whoever has this machine's key is its user.
type History = LengthHistory<(), ModelId>;

/// Remembers lengths. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Lengths {
    history: Arc<Mutex<History>>,
}

impl Lengths {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is believed of the answer to a prompt of this length.
    pub(super) fn estimate(&self, model: ModelId, prompt_tokens: u32) -> LengthEstimate {
        self.history().estimate(&(), &model, prompt_tokens)
    }

    /// An answer is over. `ended`: by itself; else it was cut off, and would have been longer.
    pub(super) fn saw(&self, model: ModelId, prompt_tokens: u32, output_tokens: u32, ended: bool) {
        self.history().observe(&(), &model, Answer { prompt_tokens, output_tokens, ended });
    }
}

/// Tokens to expect of an answer before any of it is there: the median, within what is allowed.
pub(super) fn expected(estimate: &LengthEstimate, max_tokens: u32) -> u32 {
    let [_, _, median, ..] = estimate.residual(0, Some(max_tokens)).quantiles_tokens;
    (median.round() as u32).clamp(1, max_tokens.max(1))
}

/// Tokens of a prompt of `bytes`, before a tokenizer has counted them.
pub(super) fn prompt_tokens(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_TOKEN + TEMPLATE_TOKENS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelId = ModelId([1; 32]);

    fn expect(lengths: &Lengths, max_tokens: u32) -> u32 {
        expected(&lengths.estimate(MODEL, 100), max_tokens)
    }

    #[test]
    fn what_answers_were_like_is_expected_within_what_is_allowed() {
        let lengths = Lengths::default();
        let prior = expect(&lengths, 10_000);
        assert!((150..=250).contains(&prior), "{prior}");
        assert_eq!(expect(&lengths, 16), 16);
        for _ in 0..50 {
            lengths.saw(MODEL, 100, 30, true);
        }
        let learnt = expect(&lengths, 10_000);
        assert!((20..=60).contains(&learnt), "{learnt}");
    }

    #[test]
    fn an_answer_that_was_cut_off_counts_as_longer_than_it_was() {
        let (cut, whole) = (Lengths::default(), Lengths::default());
        for _ in 0..50 {
            cut.saw(MODEL, 100, 30, false);
            whole.saw(MODEL, 100, 30, true);
        }
        assert!(expect(&cut, 10_000) > 2 * expect(&whole, 10_000));
    }
}
