//! The lengths of one group of answers.

use serde::{Deserialize, Serialize};

use super::buckets::{BUCKETS, bucket, log_middle};

/// Answers after which one counts half.
const HALF_LIFE_ANSWERS: f64 = 200.0;

/// A histogram of lengths, older ones fading as newer ones come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    weights: [f64; BUCKETS],
    pub(super) moments: Moments,
}

/// Count, sum and sum of squares of the logarithms of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Moments {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

impl Default for Group {
    fn default() -> Self {
        Self { weights: [0.0; BUCKETS], moments: Moments::default() }
    }
}

impl Group {
    /// Adds an answer of which each bucket has a part; `parts` make 1.
    pub(super) fn add(&mut self, parts: &[f64; BUCKETS]) {
        let left = (-1.0 / HALF_LIFE_ANSWERS).exp2();
        let Moments { count, sum, squares } = &mut self.moments;
        for fading in self.weights.iter_mut().chain([&mut *count, &mut *sum, &mut *squares]) {
            *fading *= left;
        }
        for (bucket, (weight, part)) in self.weights.iter_mut().zip(parts).enumerate() {
            let log_length = log_middle(bucket);
            *weight += part;
            *count += part;
            *sum += part * log_length;
            *squares += part * log_length * log_length;
        }
    }

    /// Which part of its answers is in each bucket, drawn towards `above` as by `strength` answers.
    pub(super) fn shares(&self, above: &[f64; BUCKETS], strength: f64) -> [f64; BUCKETS] {
        let total = self.moments.count + strength;
        let mut shares = *above;
        for (share, weight) in shares.iter_mut().zip(self.weights) {
            *share = (strength * *share + weight) / total;
        }
        shares
    }
}

/// All of an answer of this length in its bucket.
pub(super) fn whole(tokens: f64) -> [f64; BUCKETS] {
    let mut parts = [0.0; BUCKETS];
    parts[bucket(tokens)] = 1.0;
    parts
}
