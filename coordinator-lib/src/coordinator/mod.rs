//! Where requests should run, and when they should move: as the elected leader for anybody, or as an origin for itself.
//!
//! ```text
//! view --carriers--> search: the best few of many --policy--> E of each, least first --> PlaceReply
//!                      ^           ^                                             |
//!                      |           +---- reservations: not yet visible <---------+
//! reports --ledger--> round: every running request <-- ticks, departures         |
//!                      |                                                         v
//!                      +--policy--> what is wanted --> Plan (generation, epoch, terms)
//! ```
//!
//! Placements are answered by whoever is asked, by the same code: that two coordinators may answer at once (a partition)
//! costs a worse choice at most, since the origin alone starts workers. For the same reason plans are proposals, each for
//! one assignment; what an origin refuses is not proposed to it again at once.
//!
//! Deliberately absent: carrying plans out (`ownership`, the agent), the time to reach a peer (a prompt's ids are small
//! beside its prefill), and any state that a successor would need: a new leader starts with what digests say and with
//! what origins report anew, and is wrong about the last seconds at most.

mod candidate;
mod decide;
mod explain;
mod fitness;
mod interface;
mod ledger;
mod machine;
mod place;
mod report;
mod reservations;
mod round;
mod rule;
mod search;
mod sweep;
mod takers;
#[cfg(test)]
mod tests;

pub use interface::{CoordinatorConfig, Input, Output};
pub use ledger::{REPORT_LIFETIME, REQUESTS_MAX, REQUESTS_PER_ORIGIN_MAX, ReportFault};
pub use machine::Coordinator;
