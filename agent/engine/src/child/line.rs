//! How the time of a token rises with the context that it attends to: a line, learnt from noisy steps.
//!
//! y = level + slope x. The level follows the machine within some observations; the slope, which belongs to the model, is
//! a regression over many, drawn towards what was assumed of it until they cover enough of a context to say otherwise.

/// One observation counts as at most this many times what was expected: a suspended process is not a slow one.
const SURPRISE_MAX: f32 = 4.0;

/// Observations that the slope remembers.
const REMEMBERED: f32 = 1024.0;

/// What the assumed slope is worth: 50 observations that differ by 250 tokens.
const ASSUMED_WORTH: f32 = 50.0 * 250.0 * 250.0;

/// The least context, in tokens, that doubles the time of a token.
const DOUBLES_AT_LEAST: f32 = 128.0;

/// Seconds over tokens of context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    level: f32,
    slope: f32,
    /// The context that doubles the time, by assumption; infinite for none.
    assumed_doubles_at: f32,
    /// Observations, at most as many as are remembered; and their moments.
    count: f32,
    mean: (f32, f32),
    variance: f32,
    covariance: f32,
}

impl Line {
    /// Through `y` seconds at a context of `x`, doubling at what is assumed.
    pub(super) fn through(x: f32, y: f32, assumed_doubles_at: f32) -> Self {
        let doubles_at = assumed_doubles_at.max(DOUBLES_AT_LEAST);
        let level = y.clamp(1e-6, 1e3) / (1.0 + x / doubles_at);
        let slope = level / doubles_at;
        let (mean, variance, covariance) = ((0.0, 0.0), 0.0, 0.0);
        Self { level, slope, assumed_doubles_at: doubles_at, count: 0.0, mean, variance, covariance }
    }

    /// Seconds at a context of `x` tokens. Positive.
    pub(super) fn at(&self, x: f32) -> f32 {
        self.level + self.slope * x
    }

    /// Seconds that each token of context adds.
    pub(super) fn slope(&self) -> f32 {
        self.slope
    }

    /// A step took `y` at `x`. `weight` (above 0, at most 1) is its share in the level.
    pub(super) fn learn(&mut self, x: f32, y: f32, weight: f32) {
        let expected = self.at(x);
        let y = y.clamp(expected / SURPRISE_MAX, expected * SURPRISE_MAX);
        self.remember(x, y);
        let gathered = self.count * self.variance;
        let assumed = self.level / self.assumed_doubles_at;
        let slope = (self.count * self.covariance + ASSUMED_WORTH * assumed) / (gathered + ASSUMED_WORTH);
        let (mean_x, mean_y) = self.mean;
        self.slope = slope.clamp(0.0, mean_y / (mean_x + DOUBLES_AT_LEAST));
        let level = (y - self.slope * x).max(y * DOUBLES_AT_LEAST / (x + DOUBLES_AT_LEAST));
        self.level += (level - self.level) * weight;
    }

    fn remember(&mut self, x: f32, y: f32) {
        self.count = (self.count + 1.0).min(REMEMBERED);
        let share = 1.0 / self.count;
        let (dx, dy) = (x - self.mean.0, y - self.mean.1);
        self.mean = (self.mean.0 + share * dx, self.mean.1 + share * dy);
        self.variance = (1.0 - share) * (self.variance + share * dx * dx);
        self.covariance = (1.0 - share) * (self.covariance + share * dx * dy);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: f32, b: f32, share: f32) -> bool {
        (a / b - 1.0).abs() < share
    }

    /// Deterministic noise in [-1, 1].
    fn noise(n: u32) -> f32 {
        (n.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0
    }

    #[test]
    fn a_long_context_teaches_the_slope_whatever_was_assumed() {
        for assumed in [f32::INFINITY, 300.0, 20_000.0] {
            let mut line = Line::through(0.0, 0.01, assumed);
            for x in (0..4000_u32).step_by(4) {
                let y = 0.01 * (1.0 + x as f32 / 1000.0) * (1.0 + 0.1 * noise(x));
                line.learn(x as f32, y, 0.1);
            }
            assert!(near(line.at(0.0) / line.slope(), 1000.0, 0.15), "{assumed}: {line:?}");
            assert!(near(line.at(4000.0), 0.05, 0.1), "{assumed}: {line:?}");
        }
    }

    #[test]
    fn a_short_context_teaches_the_level_and_leaves_the_slope() {
        let mut line = Line::through(0.0, 0.01, 1000.0);
        for x in 0..100 {
            line.learn(x as f32, 0.02 * (1.0 + 0.1 * noise(x)), 0.1);
        }
        assert!(near(line.at(0.0) / line.slope(), 1000.0, 0.2), "{line:?}");
        assert!(near(line.at(50.0), 0.02, 0.1), "{line:?}");
    }

    #[test]
    fn a_machine_that_becomes_slower_is_not_taken_for_a_long_context() {
        let mut line = Line::through(0.0, 0.01, 1000.0);
        for n in 0..6000_u32 {
            let x = (n * 37 % 2000) as f32;
            let machine = if n < 1000 { 1.0 } else { 3.0 };
            line.learn(x, machine * 0.01 * (1.0 + x / 1000.0), 0.1);
        }
        assert!(near(line.at(0.0) / line.slope(), 1000.0, 0.1), "{line:?}");
        assert!(near(line.at(0.0), 0.03, 0.1), "{line:?}");
    }

    proptest! {
        #[test]
        fn it_is_finite_and_rises_whatever_is_seen(
            first in 0.0_f32..1e9, assumed in prop_oneof![0.0_f32..1e6, Just(f32::INFINITY)],
            seen in prop::collection::vec((0.0_f32..1e6, 0.0_f32..1e9, 0.01_f32..1.0), 0..200),
        ) {
            let mut line = Line::through(10.0, first, assumed);
            for (x, y, weight) in seen {
                line.learn(x, y, weight);
                prop_assert!(line.at(0.0).is_finite() && line.at(0.0) > 0.0, "{line:?}");
                prop_assert!(line.slope().is_finite() && line.slope() >= 0.0, "{line:?}");
            }
        }
    }
}
