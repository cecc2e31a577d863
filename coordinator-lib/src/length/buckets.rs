//! Lengths in log-spaced buckets: two to a doubling.

/// Buckets of answers: from 1 token to 65,536; the last holds all that is longer too.
pub(super) const BUCKETS: usize = 32;

/// Buckets to a doubling.
const STEP: f64 = 2.0;

/// Prompt buckets: each four times as long as the one before, from 16 tokens on.
const PROMPT_BUCKETS: u32 = 8;

/// Tokens from which a bucket holds lengths; that of [`BUCKETS`] is where the last one ends.
pub(super) fn edge(bucket: usize) -> f64 {
    (bucket as f64 / STEP).exp2()
}

/// The bucket of a length; lengths below 1 token are of the first.
pub(super) fn bucket(tokens: f64) -> usize {
    let at = (tokens.max(1.0).log2() * STEP).floor();
    (at as usize).min(BUCKETS - 1)
}

/// The logarithm of the middle of a bucket.
pub(super) fn log_middle(bucket: usize) -> f64 {
    (bucket as f64 + 0.5) / STEP * core::f64::consts::LN_2
}

/// The bucket of a prompt's length.
pub(super) fn prompt_bucket(prompt_tokens: u32) -> u8 {
    let doublings = (prompt_tokens / 16).checked_ilog2().map_or(0, |log| log / 2 + 1);
    doublings.min(PROMPT_BUCKETS - 1) as u8
}
