//! How long an answer will be (`policy.md` section 4).
//!
//! ```text
//! answers that are over --observe--> LengthHistory: fleet > (model, prompt bucket) > (client, model, prompt bucket)
//!                                        |  estimate: each level drawn towards the one above it
//!                                        v
//! tokens produced, max_tokens ----> LengthEstimate --residual--> ResidualTokens (quantiles of what is still to come)
//! ```
//!
//! What costs want to know is the *residual*: lengths have a heavy tail, so the more tokens have come the more are still
//! to come. Lengths are counts of tokens, whatever the tokenizer. Deliberately absent: the text of the prompt.

mod buckets;
mod estimate;
mod group;
mod history;
mod spread;
#[cfg(test)]
mod tests;

pub use estimate::{LengthEstimate, QUANTILES, ResidualTokens};
pub use history::{Answer, LengthHistory, MOST_GROUPS};
