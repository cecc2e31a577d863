//! R: how much output is still to come, as a distribution.
//!
//! A heavy tail has a mean residual that grows as tokens come. An estimate of the total, less what is done, goes to 0
//! instead, and silences every test for exactly the long requests that need them. So whatever hangs on R is averaged over
//! its quantiles. Where they come from (a client's and a model's history) is not known here.

/// Quantiles of the tokens still to come, given those that have come: at 0.1, 0.3, 0.5, 0.7 and 0.9.
///
/// Each stands for a fifth of the distribution. Invariant: finite, not negative, ascending.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual([f64; Residual::QUANTILES]);

/// More tokens than any context holds: what is not finite reads as this.
const TOKENS_MAX: f64 = 1e7;

impl Residual {
    /// How many.
    pub const QUANTILES: usize = 5;

    /// Of these quantiles in tokens. What is not a number reads as 0, and an order that is none is put right.
    pub fn of(quantiles: [f64; Self::QUANTILES]) -> Self {
        let mut tokens = quantiles.map(|q| if q > 0.0 { q.min(TOKENS_MAX) } else { 0.0 });
        tokens.sort_by(f64::total_cmp);
        Self(tokens)
    }

    /// Exactly so many tokens: for those who only have an estimate.
    pub fn exactly(tokens: u32) -> Self {
        Self::of([f64::from(tokens); Self::QUANTILES])
    }

    /// At most `tokens` come: what the request or the context allows.
    #[must_use]
    pub fn truncated(self, tokens: u32) -> Self {
        Self(self.0.map(|q| q.min(f64::from(tokens))))
    }

    /// The quantiles.
    pub fn tokens(self) -> [f64; Self::QUANTILES] {
        self.0
    }

    fn soonest_tokens(self) -> f64 {
        self.0[0]
    }

    /// The quantile at 0.3: a request shorter than that is no surprise.
    pub fn soon_tokens(self) -> f64 {
        self.0[1]
    }

    /// The greatest of the quantiles.
    pub fn most_tokens(self) -> f64 {
        self.0[Self::QUANTILES - 1]
    }

    /// The mean.
    pub fn mean_tokens(self) -> f64 {
        self.mean_of(|tokens| tokens)
    }

    /// The mean of a function of R.
    pub fn mean_of(self, value: impl Fn(f64) -> f64) -> f64 {
        if self.soonest_tokens() == self.most_tokens() {
            return value(self.most_tokens());
        }
        self.0.into_iter().map(value).sum::<f64>() / Self::QUANTILES as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_are_no_quantiles_become_some() {
        let odd = Residual::of([f64::NAN, 50.0, -3.0, f64::INFINITY, 10.0]);
        assert_eq!(odd.tokens(), [0.0, 0.0, 10.0, 50.0, TOKENS_MAX]);
        assert_eq!(odd.truncated(20).tokens(), [0.0, 0.0, 10.0, 20.0, 20.0]);
    }

    #[test]
    fn equal_quantiles_are_evaluated_once() {
        let evaluations = |residual: Residual| {
            let count = core::cell::Cell::new(0);
            let mean = residual.mean_of(|tokens| {
                count.set(count.get() + 1);
                tokens
            });
            (count.get(), mean)
        };
        assert_eq!(evaluations(Residual::exactly(80)), (1, 80.0));
        assert_eq!(evaluations(Residual::of([100.0, 200.0, 300.0, 400.0, 500.0]).truncated(80)), (1, 80.0));
        assert_eq!(evaluations(Residual::of([0.0, 10.0, 20.0, 30.0, 40.0])), (5, 20.0));
    }

    #[test]
    fn an_estimate_alone_is_a_distribution_without_width() {
        let estimate = Residual::exactly(80);
        assert_eq!((estimate.mean_tokens(), estimate.soon_tokens(), estimate.most_tokens()), (80.0, 80.0, 80.0));
        assert_eq!(Residual::of([0.0, 10.0, 20.0, 30.0, 40.0]).mean_of(|r| r * r), 600.0);
    }
}
