//! What running a request on a peer is expected to cost: `policy.md` section 1, term by term.
//!
//! ```text
//! T = wait + service        L = expected loss over [0, T] to the peer's departure        E = T + L
//! ```
//!
//! Each term is a small function of named measurements; every name ends in its unit (seconds `_s`, tokens, tokens a
//! second `_tps`, bytes a second `_bps`). Nothing here knows which peers there are or which one is best.
//!
//! Deliberately absent: the overlapped model of section 2, and the price of slowing down what already runs on a peer.

mod loss;
mod migration;
mod terms;
mod time;
mod work;

pub use loss::{Unplanned, expected_loss_s};
pub use migration::{Method, PlannedCost, crossover_tokens, planned_cost, recompute_s, transfer_s};
pub use terms::{CostParameters, Situation, Terms, terms};
pub use time::{service_s, wait_s};
pub use work::{PeerRates, Work};
