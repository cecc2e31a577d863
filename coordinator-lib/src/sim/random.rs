//! Chance, by seed: the same numbers on every machine and with every version of this crate.
//!
//! ChaCha with 8 rounds: its stream is fixed by its definition, and `rand_chacha` promises not to change it, which the
//! generators that `rand` calls standard or small do not. Distributions are made here, of two operations each, since
//! those of `rand_distr` may change with it. Logarithms and powers are the platform's: where two of these differ in the
//! last bit, so may a run.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a draw is for. Each purpose has a stream of its own, so that one more draw for one changes none of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What machines can do.
    Peers = 1,
    /// How long they are there, and away.
    Sessions = 2,
    /// How they leave.
    Departures = 3,
    /// When requests come, and how long they are.
    Arrivals = 4,
    /// What goes wrong for many at once.
    Faults = 5,
}

/// One stream of draws.
#[derive(Debug, Clone)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// The stream of `purpose` for the thing of number `of` in the run of `seed`.
    pub fn new(seed: u64, purpose: Purpose, of: u32) -> Self {
        let mut chacha = ChaCha8Rng::seed_from_u64(seed);
        chacha.set_stream(((purpose as u64) << 32) | u64::from(of));
        Self(chacha)
    }

    /// From 0 (included) to 1 (not included), in steps of 2^-53.
    pub fn part(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `from` to `to`.
    pub fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.part()
    }

    /// True with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.part() < probability
    }

    /// Exponential, of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        mean * self.unit_exponential()
    }

    /// Weibull: survival exp(-(t/scale)^shape).
    pub fn weibull(&mut self, shape: f64, scale: f64) -> f64 {
        scale * self.unit_exponential().powf(1.0 / shape)
    }

    /// Its logarithm is normal, of this mean and deviation.
    pub fn lognormal(&mut self, log_mean: f64, log_deviation: f64) -> f64 {
        (log_mean + log_deviation * self.normal()).exp()
    }

    /// Gamma of this shape and scale, by the method of Marsaglia and Tsang.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape < 1.0 {
            let boost = (1.0 - self.part()).powf(1.0 / shape);
            return boost * self.gamma(shape + 1.0, scale);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit_exponential() > d * v - d - d * v.ln() - x * x / 2.0 {
                return d * v * scale;
            }
        }
    }

    /// By the transform of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.unit_exponential()).sqrt();
        radius * (core::f64::consts::TAU * self.part()).cos()
    }

    fn unit_exponential(&mut self) -> f64 {
        -(1.0 - self.part()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The very numbers: if these change, so does every result that was ever published with a seed.
    #[test]
    fn a_seed_gives_the_numbers_that_it_always_gave() {
        let first = |seed, purpose, of| Draws::new(seed, purpose, of).0.next_u64();
        let same = first(7, Purpose::Sessions, 3);
        assert_eq!(first(7, Purpose::Sessions, 3), same);
        for other in [first(8, Purpose::Sessions, 3), first(7, Purpose::Arrivals, 3), first(7, Purpose::Sessions, 4)] {
            assert_ne!(other, same);
        }
        // The first block of ChaCha8 with a key of zeros is in the paper's test vectors: the stream is the standard one.
        let mut zeros = ChaCha8Rng::from_seed([0; 32]);
        assert_eq!(zeros.next_u32(), u32::from_le_bytes([0x3e, 0x00, 0xef, 0x2f]));
    }

    #[test]
    fn distributions_have_their_means() {
        let mut draws = Draws::new(1, Purpose::Peers, 0);
        let mut mean =
            |draw: &mut dyn FnMut(&mut Draws) -> f64| (0..40_000).map(|_| draw(&mut draws)).sum::<f64>() / 4e4;
        for (name, found, expected) in [
            ("part", mean(&mut Draws::part), 0.5),
            ("exponential", mean(&mut |d| d.exponential(3.0)), 3.0),
            // Gamma(1 + 1/2) and Gamma(3).
            ("weibull 2", mean(&mut |d| d.weibull(2.0, 1.0)), 0.886),
            ("weibull 1/2", mean(&mut |d| d.weibull(0.5, 1.0)), 2.0),
            ("lognormal", mean(&mut |d| d.lognormal(0.0, 0.5)), 1.133),
            ("gamma 0.4", mean(&mut |d| d.gamma(0.4, 2.0)), 0.8),
            ("gamma 3", mean(&mut |d| d.gamma(3.0, 2.0)), 6.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.05, "{name}: {found}, not {expected}");
        }
    }
}
