//! Requests that are drawn as the published reference draws them.

use crate::sim::random::{Draws, Purpose};
use crate::sim::scenario::Arrival;

/// How requests come: one after the other at random (Poisson), lognormal lengths, and an estimate that is off by a lognormal
/// factor. The reference's figures, read from its traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalSpec {
    /// Requests a second.
    pub rate_per_s: f64,
    /// Mean and deviation of the logarithm of the prompt's tokens.
    pub log_prompt: (f64, f64),
    /// The same of the answer's.
    pub log_output: (f64, f64),
    /// The deviation of the logarithm of what clients say over what comes.
    pub log_estimate_error: f64,
}

/// The fewest tokens of a prompt or an answer.
const LEAST_TOKENS: f64 = 4.0;

impl ArrivalSpec {
    /// The reference's requests at this rate.
    pub const fn reference(rate_per_s: f64) -> Self {
        Self { rate_per_s, log_prompt: (6.0, 0.8), log_output: (6.3, 1.0), log_estimate_error: 0.4 }
    }

    /// All that come before `until_s`.
    pub fn draw(&self, seed: u64, until_s: f64) -> Vec<Arrival> {
        let mut draws = Draws::new(seed, Purpose::Arrivals, 0);
        let mut arrivals = Vec::new();
        let mut at_s = draws.exponential(1.0 / self.rate_per_s);
        while at_s < until_s {
            let prompt = tokens(draws.lognormal(self.log_prompt.0, self.log_prompt.1));
            let output = tokens(draws.lognormal(self.log_output.0, self.log_output.1));
            let estimate = tokens(f64::from(output) * draws.lognormal(0.0, self.log_estimate_error));
            arrivals.push(Arrival {
                at_s,
                prompt_tokens: prompt,
                output_tokens: output,
                estimate_tokens: Some(estimate),
            });
            at_s += draws.exponential(1.0 / self.rate_per_s);
        }
        arrivals
    }
}

fn tokens(drawn: f64) -> u32 {
    drawn.round().max(LEAST_TOKENS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_like_the_references() {
        let arrivals = ArrivalSpec::reference(0.5).draw(3, 20_000.0);
        assert!((arrivals.len() as f64 / 10_000.0 - 1.0).abs() < 0.05, "{}", arrivals.len());
        let mut outputs: Vec<u32> = arrivals.iter().map(|arrival| arrival.output_tokens).collect();
        outputs.sort_unstable();
        let median = f64::from(outputs[outputs.len() / 2]);
        assert!((median / 543.0 - 1.0).abs() < 0.06, "{median}, not the 543 of the published traces");
        assert!(arrivals.is_sorted_by(|a, b| a.at_s <= b.at_s));
    }
}
