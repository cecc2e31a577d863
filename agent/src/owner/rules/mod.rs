//! The owner's rules: when this machine takes no work although its owner is away. Pure: what was seen and the time are
//! arguments.
//!
//! ```text
//! Conditions, RuleSettings, time --decide--> Verdict: every rule, what it saw, its limit
//!                                               '--Suspensions (20 s at least)--> Blocks, one a DepartureCause
//! ```
//!
//! A verdict carries all rules, whichever of them hold: people who use such programs complain most of not knowing which
//! rule stops them.

mod decide;
mod pause;
mod suspension;
#[cfg(test)]
mod tests;
mod verdict;

pub use decide::{Moment, Seen, decide, wall_clock};
pub use pause::Pause;
pub use suspension::{Block, HELD_AT_LEAST, Suspensions};
pub use verdict::{Finding, Rule, Standing, Verdict};
