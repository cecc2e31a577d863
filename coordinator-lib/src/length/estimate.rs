//! From a distribution of lengths to what is still to come.

use super::buckets::{BUCKETS, bucket, edge};

/// The probabilities of the quantiles that costs integrate over.
pub const QUANTILES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// How fast the tail beyond the last bucket falls: P(longer than x) as x^-2.
const TAIL_POWER: f64 = 2.0;

/// What is left below this probability is taken from the tail: quotients of it are noise.
const LEAST_LEFT: f64 = 1e-9;

/// What is believed of the length of one answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthEstimate {
    /// By bucket; within a bucket the logarithm is uniform.
    shares: [f64; BUCKETS],
}

/// What is still to come of an answer, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResidualTokens {
    /// At each of [`QUANTILES`]: not negative, never falling, at most what `max_tokens` leaves.
    pub quantiles_tokens: [f64; QUANTILES.len()],
}

impl ResidualTokens {
    /// The mean over the quantiles, each a fifth of what may happen.
    pub fn mean_tokens(&self) -> f64 {
        self.quantiles_tokens.iter().sum::<f64>() / QUANTILES.len() as f64
    }
}

impl LengthEstimate {
    /// `shares` must not be negative and make 1.
    pub(super) fn new(shares: [f64; BUCKETS]) -> Self {
        Self { shares }
    }

    /// The probability that the answer is longer than `tokens`.
    pub fn longer_than(&self, tokens: f64) -> f64 {
        if tokens.is_nan() || tokens <= 1.0 {
            return 1.0;
        }
        let at = bucket(tokens);
        let later: f64 = self.shares[at + 1..].iter().sum();
        later + self.shares[at] * part_beyond(at, tokens)
    }

    /// What is still to come where `done_tokens` have come, and no more than `max_tokens` will be produced in all (none:
    /// no such limit).
    pub fn residual(&self, done_tokens: u32, max_tokens: Option<u32>) -> ResidualTokens {
        let done = f64::from(done_tokens);
        let room = max_tokens.map_or(f64::INFINITY, |max| f64::from(max.saturating_sub(done_tokens)));
        let left = self.longer_than(done);
        let quantiles_tokens =
            QUANTILES.map(|q| (self.exceeded_by(left * (1.0 - q), 1.0 - q, done) - done).clamp(0.0, room));
        ResidualTokens { quantiles_tokens }
    }

    /// The length that is exceeded with `probability`; where next to nothing is left beyond `done`, that which a tail
    /// from there exceeds with the conditional probability `of_left`.
    fn exceeded_by(&self, probability: f64, of_left: f64, done: f64) -> f64 {
        if probability < LEAST_LEFT {
            return done.max(1.0) * of_left.powf(-1.0 / TAIL_POWER);
        }
        let mut later = 0.0;
        for at in (0..BUCKETS).rev() {
            let share = self.shares[at];
            if later + share >= probability && share > 0.0 {
                return length_within(at, (probability - later) / share);
            }
            later += share;
        }
        1.0
    }

    /// What each bucket's part is of an answer that is longer than `tokens`.
    pub(super) fn shares_beyond(&self, tokens: f64) -> [f64; BUCKETS] {
        let at = bucket(tokens);
        let mut parts = self.shares;
        parts[..at].fill(0.0);
        parts[at] *= part_beyond(at, tokens.max(1.0));
        let left: f64 = parts.iter().sum();
        if left < LEAST_LEFT { super::group::whole(tokens) } else { parts.map(|part| part / left) }
    }
}

/// Which part of a bucket's lengths is longer than `tokens`, which lie in it.
fn part_beyond(at: usize, tokens: f64) -> f64 {
    let from = edge(at);
    if at == BUCKETS - 1 {
        return (from / tokens.max(from)).powf(TAIL_POWER);
    }
    ((edge(at + 1) / tokens).ln() / (edge(at + 1) / from).ln()).clamp(0.0, 1.0)
}

/// The length that this part of a bucket exceeds: the inverse of [`part_beyond`].
fn length_within(at: usize, part: f64) -> f64 {
    let (from, to) = (edge(at), edge(at + 1));
    if at == BUCKETS - 1 { from * part.powf(-1.0 / TAIL_POWER) } else { to * (from / to).powf(part) }
}
