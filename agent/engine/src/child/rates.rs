//! How fast the model is here and now, learnt from the steps that it makes.
//!
//! A decoding step of b sequences takes about base x (1 + growth x (b - 1)) + slope x (their contexts together): measured on
//! CPUs, growth is near 0.5, since more sequences share one pass over the weights, and attention takes as long as the rest at
//! one or two thousand tokens. A few numbers, each learnt from the steps that tell about it, give the rate for one more
//! sequence without having tried it.

use std::time::Duration;

use super::line::Line;

/// Weight of a new step time: the last ten or so count.
const DECODE_WEIGHT: f32 = 0.1;

/// Prompt tokens after which half of what was known is forgotten.
const PREFILL_HALF_LIFE_TOKENS: f32 = 256.0;

/// A piece shorter than this says little about the rate of long ones.
const PIECE_MIN_TOKENS: usize = 8;

/// A batch never helps less than not at all.
const GROWTH_MAX: f32 = 1.0;

/// What is known of a model's speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    /// Seconds of a prompt token.
    prefill: Line,
    /// Seconds of a step with one sequence.
    decode: Line,
    /// What each further sequence adds, as a share of a step with one at an empty context.
    growth: f32,
}

/// What a first look at a model showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FirstLook {
    pub(crate) prefill_tps: f32,
    pub(crate) decode_tps: f32,
    pub(crate) growth: f32,
    /// Tokens of context at which this was seen.
    pub(crate) context_tokens: f32,
    /// The contexts that are thought to double the time of a prompt token, and of a decoded one; infinite for none.
    pub(crate) doubles_at: (f32, f32),
}

/// Sequences that decode together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Together {
    pub(crate) sequences: u16,
    /// Tokens of all their contexts.
    pub(crate) context_tokens: usize,
}

/// Ids of prompts in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pieces {
    pub(crate) tokens: usize,
    /// The sum of the contexts that each attends to.
    pub(crate) attended_tokens: u64,
}

impl Rates {
    pub(crate) fn new(look: FirstLook) -> Self {
        let seconds = |tps: f32| 1.0 / tps.clamp(1e-3, 1e6);
        let (prefill_doubles_at, decode_doubles_at) = look.doubles_at;
        Self {
            prefill: Line::through(look.context_tokens, seconds(look.prefill_tps), prefill_doubles_at),
            decode: Line::through(look.context_tokens, seconds(look.decode_tps), decode_doubles_at),
            growth: look.growth.clamp(0.0, GROWTH_MAX),
        }
    }

    /// Of a model whose speed is known, and depends on nothing.
    pub(crate) fn constant(prefill_tps: f32, decode_tps: f32) -> Self {
        let doubles_at = (f32::INFINITY, f32::INFINITY);
        Self::new(FirstLook { prefill_tps, decode_tps, growth: 0.0, context_tokens: 0.0, doubles_at })
    }

    /// Prompt tokens a second at a context of so many.
    pub(crate) fn prefill_tps(&self, context_tokens: usize) -> f32 {
        1.0 / self.prefill.at(context_tokens as f32)
    }

    /// The context that doubles the time of a prompt token; 65,535 stands for more.
    pub(crate) fn prefill_doubles_at(&self) -> u16 {
        doubles_at(self.prefill.at(0.0), self.prefill.slope())
    }

    /// Tokens a second of each of these.
    pub(crate) fn decode_tps(&self, together: Together) -> f32 {
        1.0 / self.step_s(together)
    }

    /// The context of one more that doubles the time of their step; 65,535 stands for more.
    pub(crate) fn decode_doubles_at(&self, together: Together) -> u16 {
        doubles_at(self.step_s(together), self.decode.slope())
    }

    fn step_s(&self, Together { sequences, context_tokens }: Together) -> f32 {
        let others = f32::from(sequences.max(1) - 1);
        self.decode.at(context_tokens as f32) + self.decode.at(0.0) * self.growth * others
    }

    /// Learns from a step that read `pieces` and decoded a token for each of those `together`.
    pub(crate) fn learn(&mut self, pieces: Pieces, together: Together, took: Duration) {
        let took_s = took.as_secs_f32();
        if pieces.tokens == 0 && together.sequences > 0 {
            self.learn_decode(together, took_s);
        } else if pieces.tokens >= PIECE_MIN_TOKENS {
            let others_s = if together.sequences == 0 { 0.0 } else { self.step_s(together) };
            self.learn_prefill(pieces, (took_s - others_s).max(took_s / 4.0));
        }
    }

    fn learn_decode(&mut self, together: Together, took_s: f32) {
        let context_tokens = together.context_tokens as f32;
        if together.sequences == 1 {
            self.decode.learn(context_tokens, took_s, DECODE_WEIGHT);
            return;
        }
        let others = f32::from(together.sequences - 1);
        let alone_s = self.decode.at(context_tokens);
        let empty_s = self.decode.at(0.0);
        let growth = (took_s - alone_s) / (empty_s * others);
        self.growth += (growth.clamp(0.0, GROWTH_MAX) - self.growth) * DECODE_WEIGHT;
        if !(0.0..=GROWTH_MAX).contains(&growth) {
            // No growth explains it: the machine itself became faster or slower.
            let machine = took_s / (alone_s + empty_s * self.growth * others);
            self.decode.learn(context_tokens, alone_s * machine, DECODE_WEIGHT);
        }
    }

    fn learn_prefill(&mut self, pieces: Pieces, took_s: f32) {
        let tokens = pieces.tokens as f32;
        let context_tokens = pieces.attended_tokens as f32 / tokens;
        let weight = 1.0 - 0.5_f32.powf(tokens / PREFILL_HALF_LIFE_TOKENS);
        self.prefill.learn(context_tokens, took_s / tokens, weight);
    }
}

fn doubles_at(empty_s: f32, slope_s: f32) -> u16 {
    (empty_s / slope_s.max(f32::MIN_POSITIVE)).clamp(1.0, f32::from(u16::MAX)) as u16
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

    fn rates(prefill_tps: f32, decode_tps: f32, growth: f32) -> Rates {
        let doubles_at = (f32::INFINITY, f32::INFINITY);
        Rates::new(FirstLook { prefill_tps, decode_tps, growth, context_tokens: 0.0, doubles_at })
    }

    fn empty(sequences: u16) -> Together {
        Together { sequences, context_tokens: 0 }
    }

    fn piece(tokens: usize) -> Pieces {
        Pieces { tokens, attended_tokens: 0 }
    }

    #[test]
    fn steps_of_one_and_of_several_teach_the_rate_of_one_more() {
        let mut rates = rates(100.0, 10.0, 0.0);
        for _ in 0..100 {
            rates.learn(piece(0), empty(1), seconds(0.02));
            rates.learn(piece(0), empty(3), seconds(0.04));
        }
        assert!(near(rates.decode_tps(empty(1)), 50.0), "{rates:?}");
        assert!(near(rates.decode_tps(empty(2)), 1.0 / 0.03), "{rates:?}");
        assert!(near(rates.decode_tps(empty(5)), 1.0 / 0.06), "{rates:?}");
    }

    #[test]
    fn contexts_that_grow_teach_how_much_slower_long_ones_are() {
        let mut rates = rates(200.0, 100.0, 0.5);
        for context_tokens in 0..3000 {
            let alone = Together { sequences: 1, context_tokens };
            rates.learn(piece(0), alone, seconds(0.01 * (1.0 + context_tokens as f32 / 1000.0)));
            if context_tokens % 16 == 0 {
                let attended_tokens = context_tokens as u64 * 16;
                let took = 16.0 * 0.005 * (1.0 + context_tokens as f32 / 2000.0);
                rates.learn(Pieces { tokens: 16, attended_tokens }, empty(0), seconds(took));
            }
        }
        let long = Together { sequences: 1, context_tokens: 3000 };
        assert!(near(rates.decode_tps(long), 25.0), "{rates:?}");
        assert!((900..1100).contains(&rates.decode_doubles_at(empty(1))), "{}", rates.decode_doubles_at(empty(1)));
        assert!(near(rates.prefill_tps(2000), 100.0), "{rates:?}");
        assert!((1800..2200).contains(&rates.prefill_doubles_at()), "{}", rates.prefill_doubles_at());
        // Beside one with 1,000 tokens a step takes 0.02 s and half of 0.01 s more, and 0.00001 s a token of the newcomer's.
        let beside = Together { sequences: 2, context_tokens: 1000 };
        assert!((2250..2750).contains(&rates.decode_doubles_at(beside)), "{}", rates.decode_doubles_at(beside));
    }

    #[test]
    fn a_slower_machine_is_noticed_without_lone_steps() {
        let mut rates = rates(100.0, 50.0, 0.5);
        for _ in 0..200 {
            rates.learn(piece(0), empty(4), seconds(0.4));
        }
        assert!(near(rates.decode_tps(empty(4)), 2.5), "{rates:?}");
    }

    #[test]
    fn prefill_beside_decoders_counts_its_own_time_only() {
        let mut rates = rates(50.0, 10.0, 0.0);
        for _ in 0..100 {
            rates.learn(piece(16), empty(1), seconds(0.1 + 0.16));
        }
        assert!(near(rates.prefill_tps(0), 100.0), "{rates:?}");
    }

    #[test]
    fn one_suspended_step_does_not_spoil_the_rates() {
        let mut rates = rates(100.0, 50.0, 0.5);
        rates.learn(piece(0), empty(1), seconds(600.0));
        rates.learn(piece(64), empty(0), seconds(600.0));
        assert!(rates.decode_tps(empty(1)) > 35.0 && rates.prefill_tps(0) > 60.0, "{rates:?}");
    }

    #[test]
    fn rates_are_finite_whatever_is_given() {
        for (prefill, decode) in [(0.0, 0.0), (f32::INFINITY, f32::INFINITY)] {
            let mut rates = rates(prefill, decode, 9.0);
            rates.learn(piece(100), empty(0), Duration::ZERO);
            rates.learn(piece(0), empty(2), Duration::ZERO);
            assert!(rates.prefill_tps(100).is_finite() && rates.decode_tps(empty(3)).is_finite(), "{rates:?}");
        }
    }
}
