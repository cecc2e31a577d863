//! Draws a token from logits: penalties, then temperature, then top-k, top-p and min-p, then the draw.
//!
//! The draw is keyed by position: every (seed, n, token) has a noise of its own (Gumbel's, so that the largest of logit
//! plus noise is a draw from the softmax), and nothing else is random. A continuation elsewhere therefore draws the same,
//! and logits that differ by little there change the token only where its lead was as little. An inverse of the
//! cumulative distribution would shift every boundary behind the first difference.
//!
//! Nothing sorts the vocabulary: what a filter keeps lies within a few units of the largest logit nearly always, so
//! candidates are collected by that distance, which doubles until they suffice.

use idlewild_protocol::{Sampling, TokenId};

/// Buffers that draws share, so that a step allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    penalised: Vec<f32>,
    recent: Vec<TokenId>,
    kept: Vec<u32>,
}

/// Draws output token `n` after `context` (prompt and output so far). None where no logit is finite.
pub(crate) fn draw(
    logits: &[f32],
    context: &[TokenId],
    sampling: &Sampling,
    n: u32,
    scratch: &mut Scratch,
) -> Option<TokenId> {
    let Scratch { penalised, recent, kept } = scratch;
    let logits = penalise(logits, context, sampling, penalised, recent);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !largest.is_finite() {
        return None;
    }
    if sampling.temperature <= 0.0 {
        return logits.iter().position(|l| *l == largest).map(|at| TokenId(at as u32));
    }
    let scores = Scores { logits, largest, per_unit: 1.0 / sampling.temperature };
    let noise = Noise::new(sampling.seed, n);
    let least = if sampling.min_p > 0.0 { sampling.min_p.ln() } else { f32::NEG_INFINITY };
    let filtered = sampling.top_k > 0 || sampling.top_p < 1.0;
    let chosen = if filtered {
        scores.keep(sampling.top_k as usize, sampling.top_p, kept);
        kept.sort_unstable();
        noise.choose(kept.iter().map(|&id| (id, scores.at(id))).filter(|(_, score)| *score >= least))
    } else {
        noise.choose((0..logits.len() as u32).map(|id| (id, scores.at(id))).filter(|(_, score)| *score >= least))
    };
    chosen.map(TokenId)
}

/// Lowers the logits of tokens among the last ones. Gives the logits as they are where no penalty is set.
fn penalise<'a>(
    logits: &'a [f32],
    context: &[TokenId],
    sampling: &Sampling,
    buffer: &'a mut Vec<f32>,
    recent: &mut Vec<TokenId>,
) -> &'a [f32] {
    let is_set =
        sampling.repeat_penalty != 1.0 || sampling.frequency_penalty != 0.0 || sampling.presence_penalty != 0.0;
    let span = context.len().min(sampling.penalty_last_n as usize);
    if !is_set || span == 0 {
        return logits;
    }
    buffer.clear();
    buffer.extend_from_slice(logits);
    recent.clear();
    recent.extend_from_slice(&context[context.len() - span..]);
    recent.sort_unstable();
    for run in recent.chunk_by(|a, b| a == b) {
        let Some(logit) = run.first().and_then(|id| buffer.get_mut(id.0 as usize)) else { continue };
        *logit = if *logit > 0.0 { *logit / sampling.repeat_penalty } else { *logit * sampling.repeat_penalty };
        *logit -= run.len() as f32 * sampling.frequency_penalty + sampling.presence_penalty;
    }
    buffer
}

/// Logits over the temperature, less the largest: 0 for the likeliest, negative for the rest.
struct Scores<'a> {
    logits: &'a [f32],
    largest: f32,
    per_unit: f32,
}

/// Where collecting candidates begins: a probability of 1/55 of the likeliest's.
const FIRST_DISTANCE: f32 = 4.0;

/// Tokens less likely than e^-30 of the likeliest do not count in the total mass: 1e-8 for a vocabulary of 100,000.
const NEGLIGIBLE: f32 = -30.0;

impl Scores<'_> {
    fn at(&self, id: u32) -> f32 {
        (self.logits[id as usize] - self.largest) * self.per_unit
    }

    /// Collects the ids that top-k (0 is all) and then top-p keep.
    fn keep(&self, top_k: usize, top_p: f32, kept: &mut Vec<u32>) {
        let top_k = if top_k == 0 { usize::MAX } else { top_k };
        let total = if top_k == usize::MAX { self.mass(0..self.logits.len() as u32) } else { 0.0 };
        let mut distance = FIRST_DISTANCE;
        loop {
            self.collect(distance, kept);
            let is_all = kept.len() >= self.logits.len() || distance > f32::MAX / 4.0;
            let is_enough = if top_k == usize::MAX {
                self.mass(kept.iter().copied()) >= f64::from(top_p) * total
            } else {
                kept.len() >= top_k
            };
            if is_all || is_enough {
                break;
            }
            distance *= 2.0;
        }
        kept.sort_unstable_by(|a, b| self.at(*b).total_cmp(&self.at(*a)).then(a.cmp(b)));
        kept.truncate(top_k);
        if top_p < 1.0 {
            let total = if top_k == usize::MAX { total } else { self.mass(kept.iter().copied()) };
            kept.truncate(self.nucleus(kept, f64::from(top_p) * total));
        }
    }

    fn collect(&self, distance: f32, kept: &mut Vec<u32>) {
        let least = self.largest - distance / self.per_unit;
        kept.clear();
        kept.extend((0_u32..).zip(self.logits).filter(|(_, logit)| **logit >= least).map(|(id, _)| id));
    }

    fn mass(&self, ids: impl Iterator<Item = u32>) -> f64 {
        ids.map(|id| self.at(id)).filter(|score| *score > NEGLIGIBLE).map(|score| f64::from(score.exp())).sum()
    }

    /// How many of the sorted ids reach `mass`; at least one.
    fn nucleus(&self, sorted: &[u32], mass: f64) -> usize {
        let mut sum = 0.0;
        for (count, id) in (1..).zip(sorted) {
            sum += f64::from(self.at(*id).exp());
            if sum >= mass {
                return count;
            }
        }
        sorted.len()
    }
}

/// Keeps draws from being related to anything else that is hashed from a seed.
const NOISE_DOMAIN: &str = "idlewild 2026 sampler noise";

/// The step of splitmix64's counter.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Gumbel noise of every token at one position: a function of (seed, n, id).
struct Noise {
    key: u64,
}

impl Noise {
    fn new(seed: u64, n: u32) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(NOISE_DOMAIN);
        hasher.update(&seed.to_le_bytes()).update(&n.to_le_bytes());
        let mut key = [0; 8];
        hasher.finalize_xof().fill(&mut key);
        Self { key: u64::from_le_bytes(key) }
    }

    /// 64 random bits of one token: splitmix64 with the key as its state.
    fn bits(&self, id: u32) -> u64 {
        let mut z = self.key.wrapping_add(GOLDEN.wrapping_mul(u64::from(id) + 1));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn gumbel(bits: u64) -> f64 {
        let uniform = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -(-uniform.ln()).ln()
    }

    /// The id with the largest score plus noise; of equals the first.
    fn choose(&self, candidates: impl Iterator<Item = (u32, f32)>) -> Option<u32> {
        let mut best: Option<(u32, f64)> = None;
        for (id, score) in candidates {
            let score = f64::from(score);
            let bits = self.bits(id);
            // -ln(-ln u) <= -ln(1 - u) <= ln 2 times (one more than the leading ones of u): spares nearly all logarithms.
            let bound = f64::from(bits.leading_ones() + 1) * core::f64::consts::LN_2;
            if best.is_none_or(|(_, value)| score + bound > value) {
                let value = score + Self::gumbel(bits);
                if best.is_none_or(|(_, best)| value > best) {
                    best = Some((id, value));
                }
            }
        }
        best.map(|(id, _)| id)
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
