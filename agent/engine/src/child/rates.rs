//! How fast the model is here and now, learnt from the steps that it makes.
//!
//! A decoding step of b sequences takes about base x (1 + growth x (b - 1)): measured on CPUs, growth is near 0.5, since
//! more sequences share one pass over the weights. Two numbers, each learnt from the steps that tell about it, give the
//! rate for one more sequence without having tried it.

use std::time::Duration;

/// Weight of a new step time: the last ten or so count.
const DECODE_WEIGHT: f32 = 0.1;

/// Prompt tokens after which half of what was known is forgotten.
const PREFILL_HALF_LIFE_TOKENS: f32 = 256.0;

/// A piece shorter than this says little about the rate of long ones.
const PIECE_MIN_TOKENS: usize = 8;

/// One observation counts as at most this many times what was expected: a suspended process is not a slow one.
const SURPRISE_MAX: f32 = 4.0;

/// A batch never helps less than not at all.
const GROWTH_MAX: f32 = 1.0;

/// What is known of a model's speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    prefill_tps: f32,
    /// Seconds of a step with one sequence.
    base_s: f32,
    /// What each further sequence adds, as a share of `base_s`.
    growth: f32,
}

impl Rates {
    pub(crate) fn new(prefill_tps: f32, decode_tps: f32, growth: f32) -> Self {
        let base_s = 1.0 / decode_tps.clamp(1e-3, 1e6);
        Self { prefill_tps: prefill_tps.clamp(1e-3, 1e6), base_s, growth: growth.clamp(0.0, GROWTH_MAX) }
    }

    /// Prompt tokens a second.
    pub(crate) fn prefill_tps(&self) -> f32 {
        self.prefill_tps
    }

    /// Tokens a second of each sequence when `sequences` decode together.
    pub(crate) fn decode_tps(&self, sequences: u16) -> f32 {
        1.0 / self.step_s(sequences)
    }

    fn step_s(&self, sequences: u16) -> f32 {
        self.base_s * (1.0 + self.growth * f32::from(sequences.max(1) - 1))
    }

    /// Learns from a step that read `prefilled` prompt tokens and decoded one token for each of `decoding` sequences.
    pub(crate) fn learn(&mut self, prefilled: usize, decoding: u16, took: Duration) {
        let took_s = took.as_secs_f32();
        if prefilled == 0 && decoding > 0 {
            self.learn_decode(decoding, took_s);
        } else if prefilled >= PIECE_MIN_TOKENS {
            let others_s = if decoding == 0 { 0.0 } else { self.step_s(decoding) };
            self.learn_prefill(prefilled as f32, (took_s - others_s).max(took_s / 4.0));
        }
    }

    fn learn_decode(&mut self, decoding: u16, took_s: f32) {
        let expected = self.step_s(decoding);
        let took_s = took_s.clamp(expected / SURPRISE_MAX, expected * SURPRISE_MAX);
        if decoding == 1 {
            self.base_s = mix(self.base_s, took_s, DECODE_WEIGHT);
            return;
        }
        let others = f32::from(decoding - 1);
        let growth = (took_s / self.base_s - 1.0) / others;
        if (0.0..=GROWTH_MAX).contains(&growth) {
            self.growth = mix(self.growth, growth, DECODE_WEIGHT);
        } else {
            // No growth explains it: the machine itself became faster or slower.
            self.growth = mix(self.growth, growth.clamp(0.0, GROWTH_MAX), DECODE_WEIGHT);
            self.base_s = mix(self.base_s, took_s / (1.0 + self.growth * others), DECODE_WEIGHT);
        }
    }

    fn learn_prefill(&mut self, tokens: f32, took_s: f32) {
        let slow = self.prefill_tps / SURPRISE_MAX;
        let tps = (tokens / took_s.max(1e-6)).clamp(slow, self.prefill_tps * SURPRISE_MAX);
        self.prefill_tps = mix(self.prefill_tps, tps, 1.0 - 0.5_f32.powf(tokens / PREFILL_HALF_LIFE_TOKENS));
    }
}

fn mix(old: f32, new: f32, weight: f32) -> f32 {
    old + (new - old) * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: f32) -> Duration {
        Duration::from_secs_f32(s)
    }

    fn near(a: f32, b: f32) -> bool {
        (a / b - 1.0).abs() < 0.05
    }

    #[test]
    fn steps_of_one_and_of_several_teach_the_rate_of_one_more() {
        let mut rates = Rates::new(100.0, 10.0, 0.0);
        for _ in 0..100 {
            rates.learn(0, 1, seconds(0.02));
            rates.learn(0, 3, seconds(0.04));
        }
        assert!(near(rates.decode_tps(1), 50.0), "{rates:?}");
        assert!(near(rates.decode_tps(2), 1.0 / 0.03), "{rates:?}");
        assert!(near(rates.decode_tps(5), 1.0 / 0.06), "{rates:?}");
    }

    #[test]
    fn a_slower_machine_is_noticed_without_lone_steps() {
        let mut rates = Rates::new(100.0, 50.0, 0.5);
        for _ in 0..200 {
            rates.learn(0, 4, seconds(0.4));
        }
        assert!(near(rates.decode_tps(4), 2.5), "{rates:?}");
    }

    #[test]
    fn prefill_beside_decoders_counts_its_own_time_only() {
        let mut rates = Rates::new(50.0, 10.0, 0.0);
        for _ in 0..100 {
            rates.learn(16, 1, seconds(0.1 + 0.16));
        }
        assert!(near(rates.prefill_tps(), 100.0), "{rates:?}");
    }

    #[test]
    fn one_suspended_step_does_not_spoil_the_rates() {
        let mut rates = Rates::new(100.0, 50.0, 0.5);
        rates.learn(0, 1, seconds(600.0));
        rates.learn(64, 0, seconds(600.0));
        assert!(rates.decode_tps(1) > 35.0 && rates.prefill_tps() > 80.0, "{rates:?}");
    }

    #[test]
    fn rates_are_finite_whatever_is_given() {
        for (prefill, decode) in [(0.0, 0.0), (f32::INFINITY, f32::INFINITY)] {
            let mut rates = Rates::new(prefill, decode, 9.0);
            rates.learn(100, 0, Duration::ZERO);
            rates.learn(0, 2, Duration::ZERO);
            assert!(rates.prefill_tps().is_finite() && rates.decode_tps(3).is_finite(), "{rates:?}");
        }
    }
}
