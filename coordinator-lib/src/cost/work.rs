//! What is to be done, and how fast a peer does it.

/// Tokens a second that any machine could have: what is outside is a fault in a measurement, and would drive sums out of
/// what a double can hold.
const RATES_TPS: core::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// Whether `tps` is a rate that was measured.
pub(crate) fn is_rate(tps: f64) -> bool {
    RATES_TPS.contains(&tps)
}

/// A peer's measured rates for one model, under its present load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerRates {
    /// d: decoded tokens a second; 0 where nothing was measured.
    pub decode_tps: f64,
    /// p: prefilled tokens a second; 0 where nothing was measured.
    pub prefill_tps: f64,
    /// B: bytes a second of goodput to and from the peer.
    pub bandwidth_bps: f64,
    /// Bytes of KV a token takes on the wire.
    pub kv_bytes_per_token: f64,
    /// Tokens of context that one request may hold here.
    pub room_tokens: u32,
}

impl PeerRates {
    /// Whether the peer holds a context of `needed_tokens`.
    pub fn has_room_for(&self, needed_tokens: i64) -> bool {
        i64::from(self.room_tokens) >= needed_tokens
    }

    /// Whether anything can be said about how long work takes here.
    pub fn is_measured(&self) -> bool {
        is_rate(self.decode_tps) && is_rate(self.prefill_tps)
    }
}

/// One request, as far as it has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// c: tokens that its context holds: the prompt and what was produced.
    pub context_tokens: u32,
    /// Tokens to prefill before decoding begins or goes on.
    pub prefill_tokens: u32,
    /// L-hat: tokens of output that are expected in total.
    pub expected_output_tokens: u32,
    /// Tokens of output that exist.
    pub done_tokens: u32,
}

impl Work {
    /// A request that nobody has begun.
    pub fn fresh(prompt_tokens: u32, expected_output_tokens: u32) -> Self {
        Self { context_tokens: prompt_tokens, prefill_tokens: prompt_tokens, expected_output_tokens, done_tokens: 0 }
    }

    /// A request on the worker that holds its context. Once it decodes nothing is left to prefill, here or (what moves
    /// it there is charged apart) on another peer; before, the whole prompt counts.
    pub fn running(prompt_tokens: u32, expected_output_tokens: u32, done_tokens: u32) -> Self {
        Self {
            context_tokens: prompt_tokens.saturating_add(done_tokens),
            prefill_tokens: if done_tokens > 0 { 0 } else { prompt_tokens },
            expected_output_tokens,
            done_tokens,
        }
    }

    /// A request whose worker is gone: all of its context must be prefilled wherever it goes on.
    pub fn orphaned(prompt_tokens: u32, expected_output_tokens: u32, done_tokens: u32) -> Self {
        let context_tokens = prompt_tokens.saturating_add(done_tokens);
        Self { context_tokens, prefill_tokens: context_tokens, expected_output_tokens, done_tokens }
    }

    /// Tokens of output still expected; 0 for a request that has overrun its estimate.
    pub fn remaining_tokens(&self) -> u32 {
        self.expected_output_tokens.saturating_sub(self.done_tokens)
    }

    /// Tokens of context at its end. Less than it holds now where it has overrun its estimate.
    pub fn needed_tokens(&self) -> i64 {
        i64::from(self.context_tokens) + i64::from(self.expected_output_tokens) - i64::from(self.done_tokens)
    }
}
