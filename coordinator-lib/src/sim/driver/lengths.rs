//! What is believed of how many tokens are still to come.

use core::cell::Cell;

use crate::cost::Residual;
use crate::length::{Answer, LengthHistory};
use crate::sim::scenario::Arrival;
use crate::sim::world::Live;

/// How much a driver knows of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// What the client said, less what is done, and not less than nothing: the reference's, with its defect mended.
    Estimate,
    /// What has been learnt from answers: the product's.
    Learnt,
    /// The truth.
    Exact,
}

/// The length that estimates are scaled to, so that what is learnt of one is learnt of all: how far off they are.
const SCALED_TOKENS: f64 = 1000.0;

/// What is believed is worked out anew after this many more tokens, and this part more.
const ANEW_TOKENS: f64 = 8.0;
const ANEW_PART: f64 = 1.05;

/// Answers so far. Where clients say how long an answer will be, what is learnt is by what factor they are wrong.
#[derive(Debug)]
pub(super) struct Lengths {
    knowledge: Knowledge,
    history: LengthHistory<(), ()>,
    /// By request: what was believed last, and from how many tokens on that must be worked out anew.
    believed: Vec<Cell<Option<(f64, u32, Residual)>>>,
}

impl Lengths {
    pub(super) fn new(knowledge: Knowledge) -> Self {
        Self { knowledge, history: LengthHistory::default(), believed: Vec::new() }
    }

    /// Tokens of output that are expected of a request that comes.
    pub(super) fn expect(&mut self, arrival: &Arrival) -> u32 {
        self.believed.push(Cell::new(None));
        match (self.knowledge, arrival.estimate_tokens) {
            (Knowledge::Exact, _) => arrival.output_tokens,
            (_, Some(estimate_tokens)) => estimate_tokens,
            (_, None) => self.learnt(arrival, 0).mean_tokens().round().max(1.0) as u32,
        }
    }

    pub(super) fn learn(&mut self, arrival: &Arrival) {
        let scaled =
            scale(arrival).map_or(f64::from(arrival.output_tokens), |scale| f64::from(arrival.output_tokens) / scale);
        let output_tokens = scaled.round().max(1.0) as u32;
        let answer = Answer { prompt_tokens: like(arrival), output_tokens, ended: true };
        self.history.observe(&(), &(), answer);
    }

    /// R of the request of number `at` at `now_s`.
    pub(super) fn residual(&self, at: usize, live: &Live, now_s: f64) -> Residual {
        let done = live.done_tokens_at(now_s);
        match self.knowledge {
            Knowledge::Exact => Residual::exactly(live.arrival.output_tokens.saturating_sub(done)),
            Knowledge::Estimate => Residual::exactly(live.expected_tokens.saturating_sub(done)),
            Knowledge::Learnt => self.believed(at, live, done),
        }
    }

    fn believed(&self, at: usize, live: &Live, done: u32) -> Residual {
        let Some(cell) = self.believed.get(at) else { return self.learnt(&live.arrival, done) };
        if let Some((anew, of_done, residual)) = cell.get()
            && done >= of_done
            && f64::from(done) < anew
        {
            let since = f64::from(done - of_done);
            return Residual::of(residual.tokens().map(|tokens| (tokens - since).max(0.0)));
        }
        let residual = self.learnt(&live.arrival, done);
        cell.set(Some((f64::from(done) * ANEW_PART + ANEW_TOKENS, done, residual)));
        residual
    }

    fn learnt(&self, arrival: &Arrival, done: u32) -> Residual {
        let estimate = self.history.estimate(&(), &(), like(arrival));
        let scale = scale(arrival).unwrap_or(1.0);
        let done_scaled = (f64::from(done) / scale).round() as u32;
        Residual::of(estimate.residual(done_scaled, None).quantiles_tokens.map(|tokens| tokens * scale))
    }
}

/// Tokens that one of [`SCALED_TOKENS`] stands for; none where the client says nothing.
fn scale(arrival: &Arrival) -> Option<f64> {
    arrival.estimate_tokens.map(|estimate| f64::from(estimate.max(1)) / SCALED_TOKENS)
}

/// What the history tells apart: lengths of prompts, where there are no estimates.
fn like(arrival: &Arrival) -> u32 {
    if arrival.estimate_tokens.is_some() { 1 } else { arrival.prompt_tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(output_tokens: u32, estimate_tokens: Option<u32>, done: f64) -> Live {
        let arrival = Arrival { at_s: 0.0, prompt_tokens: 100, output_tokens, estimate_tokens };
        Live { done, expected_tokens: estimate_tokens.unwrap_or(0), ..Live::new(arrival) }
    }

    #[test]
    fn what_outlasts_its_estimate_is_not_expected_to_end_at_once() {
        let mut learnt = Lengths::new(Knowledge::Learnt);
        for n in 0..200 {
            // Half of the answers are twice as long as was said, half are as long.
            let length = if n % 2 == 0 { 400 } else { 200 };
            learnt.learn(&live(length, Some(200), 0.0).arrival);
        }
        let late = live(4000, Some(2000), 2500.0);
        assert_eq!(Lengths::new(Knowledge::Estimate).residual(0, &late, 0.0), Residual::exactly(0));
        let believed = learnt.residual(0, &late, 0.0).mean_tokens();
        assert!((900.0..2200.0).contains(&believed), "{believed}: it is one of those that are twice as long");
        assert_eq!(Lengths::new(Knowledge::Exact).residual(0, &late, 0.0), Residual::exactly(1500));
    }

    #[test]
    fn a_belief_is_kept_while_few_tokens_come() {
        let mut lengths = Lengths::new(Knowledge::Learnt);
        let first = live(500, None, 100.0);
        lengths.expect(&first.arrival);
        let before = lengths.residual(0, &first, 0.0).mean_tokens();
        lengths.learn(&live(5000, None, 0.0).arrival);
        let soon = lengths.residual(0, &live(500, None, 103.0), 0.0).mean_tokens();
        assert!((before - soon - 3.0).abs() < 1e-9, "{before} {soon}");
        assert!(lengths.residual(0, &live(500, None, 200.0), 0.0).mean_tokens() > before);
    }
}
