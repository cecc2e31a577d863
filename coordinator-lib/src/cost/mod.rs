//! What running a request on a peer is expected to cost, term by term.
//!
//! ```text
//! T = wait + service        L = expected loss over [0, T] to the peer's departure        E = T + L
//!
//! the rule as given      terms --> loss (16 cells), migration (the source stands still)
//! the corrected rule     residual (R), path (b) --> preparation, choice (W, S, work, bytes)
//!                        departures (exact) --> takeover (U, L)      prices (lambda, mu, K) --> worth      batching
//! ```
//!
//! Each term is a small function of named measurements; every name ends in its unit (seconds `_s`, tokens, tokens a
//! second `_tps`, bytes a second `_bps`). Nothing here knows which peers there are or which one is best.
//!
//! Deliberately absent: decisions. The tests that compare these terms are in `policy`.

mod batching;
mod choice;
mod departures;
mod loss;
mod migration;
mod overheads;
mod path;
mod preparation;
#[cfg(test)]
mod preparation_tests;
mod prices;
mod residual;
mod takeover;
mod terms;
mod time;
mod work;
mod worth;

pub use batching::{Batch, Batching};
pub use choice::{
    PHI_IDS_ONLY_BELOW, PHI_PRE_COPY_ABOVE, phi, preparation, preparation_by, preparation_worth_most, way_by_phi,
};
pub use departures::{DepartureCurve, Departures, segment_loss_s};
pub use loss::{Unplanned, expected_loss_s};
pub use migration::{Method, PlannedCost, crossover_tokens, planned_cost, recompute_s, transfer_s};
pub use overheads::{AgreedTimes, Overheads};
pub use path::Path;
pub use preparation::{Preparation, Route, Way, hybrid, ids_only, pre_copy, round_s, stopped_split};
pub use prices::{Prices, context_at_failure_tokens, keep_up_s};
pub use residual::Residual;
pub use takeover::{Fixed, Rebuild, Remainder, Takeover};
pub use terms::{CostParameters, Situation, Terms, terms};
pub use time::{service_s, wait_s};
pub(crate) use work::is_rate;
pub use work::{PeerRates, Work};
pub use worth::Stakes;
