//! What one more request does to those that a peer decodes already.
//!
//! A step of a batch of n takes `step_s + n * sequence_s`: reading the weights once, and each sequence's own part. One
//! more sequence makes every step longer for all of them. A placement that counts only its own time makes fast peers slow
//! for everybody.
//!
//! Deliberately absent: what the prefill of the new one does to the others; engines interleave it in shares of their own.

use super::is_rate;

/// Time of a decoding step by the size of its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batching {
    /// Seconds of a step, however many take part.
    pub step_s: f64,
    /// Seconds that each sequence adds.
    pub sequence_s: f64,
}

impl Batching {
    /// From two measurements: tokens a second of one sequence alone, and of each of `together` decoding at once. None
    /// where they are no rates, or batches of one alone were measured.
    pub fn measured(alone_tps: f64, each_tps: f64, together: u32) -> Option<Self> {
        if !(is_rate(alone_tps) && is_rate(each_tps) && together > 1) {
            return None;
        }
        let sequence_s = (1.0 / each_tps - 1.0 / alone_tps).max(0.0) / f64::from(together - 1);
        Some(Self { step_s: (1.0 / alone_tps - sequence_s).max(0.0), sequence_s })
    }

    /// From the rate that one more sequence beside `running` would get, if `shared` of a lone step is spent for all
    /// together (1: batching is free; 0: it gains nothing). None where that is no rate.
    pub fn assumed(one_more_tps: f64, running: u32, shared: f64) -> Option<Self> {
        if !is_rate(one_more_tps) {
            return None;
        }
        let shared = shared.clamp(0.0, 1.0);
        let lone_s = 1.0 / one_more_tps / (shared + (1.0 - shared) * (f64::from(running) + 1.0));
        Some(Self { step_s: shared * lone_s, sequence_s: (1.0 - shared) * lone_s })
    }

    /// Tokens a second of each of `sequences` that decode together.
    pub fn decode_tps(&self, sequences: u32) -> f64 {
        1.0 / (self.step_s + self.sequence_s * f64::from(sequences))
    }
}

/// What a peer decodes now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batch {
    /// How its steps grow; none where that is not known: then nothing is charged.
    pub batching: Option<Batching>,
    /// Requests that decode.
    pub running: u32,
    /// Tokens still to come of all of them together, expected.
    pub remaining_tokens: f64,
}

impl Batch {
    /// A peer on which nothing runs, or of which nothing is known.
    pub const EMPTY: Self = Self { batching: None, running: 0, remaining_tokens: 0.0 };

    /// Seconds that a request of `tokens` puts on those that run: their steps beside it, each longer by one sequence.
    /// None of them is beside it for longer than it lasts.
    pub fn slowdown_s(&self, tokens: f64) -> f64 {
        let Some(batching) = self.batching else { return 0.0 };
        let beside_tokens = self.remaining_tokens.max(0.0).min(tokens * f64::from(self.running));
        let slowdown_s = beside_tokens * batching.sequence_s;
        if slowdown_s > 0.0 && slowdown_s.is_finite() { slowdown_s } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_measured_at_two_sizes_is_known_at_every_size() {
        // Alone a step takes 50 ms, five together 90 ms: 10 ms a sequence.
        let batching = Batching::measured(20.0, 1.0 / 0.09, 5).unwrap();
        for (sequences, step_s) in [(1, 0.05), (2, 0.06), (5, 0.09), (10, 0.14)] {
            assert!((1.0 / batching.decode_tps(sequences) - step_s).abs() < 1e-12, "{sequences}");
        }
        for (alone_tps, each_tps, together) in
            [(0.0, 1.0, 2), (1.0, f64::NAN, 2), (2.0, 1.0, 1), (f64::INFINITY, 1.0, 2)]
        {
            assert_eq!(Batching::measured(alone_tps, each_tps, together), None);
        }
    }

    #[test]
    fn an_assumption_gives_back_the_rate_that_it_was_made_from() {
        for (running, shared) in [(0, 0.0), (0, 1.0), (3, 0.0), (3, 0.5), (7, 1.0)] {
            let batching = Batching::assumed(8.0, running, shared).unwrap();
            assert!((batching.decode_tps(running + 1) - 8.0).abs() < 1e-9, "{running} {shared}");
        }
        assert_eq!(Batching::assumed(f64::NAN, 0, 0.5), None);
    }

    #[test]
    fn those_that_run_pay_for_every_step_beside_the_newcomer() {
        let batching = Some(Batching { step_s: 0.04, sequence_s: 0.01 });
        let batch = Batch { batching, running: 3, remaining_tokens: 900.0 };
        assert!((batch.slowdown_s(1000.0) - 9.0).abs() < 1e-9, "all their tokens");
        assert!((batch.slowdown_s(100.0) - 3.0).abs() < 1e-9, "as long as it is there");
        for free in [Batch::EMPTY, Batch { batching: None, ..batch }, Batch { remaining_tokens: f64::NAN, ..batch }] {
            assert_eq!(free.slowdown_s(100.0), 0.0, "{free:?}");
        }
    }
}
