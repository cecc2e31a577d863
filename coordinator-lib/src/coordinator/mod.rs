//! Answers "where should this run?" from a view: as the elected leader for anybody, or as an origin for itself.
//!
//! ```text
//! view --fitness--> peers that could (and why the others cannot) --policy--> E of each, least first --> PlaceReply
//!                         ^                                                      |
//!                         +------ reservations: placed, but not yet visible <----+
//! ```
//!
//! Both use the same code; that two coordinators may answer at once (a partition) costs a worse choice at most, since
//! the origin alone starts workers.
//!
//! Deliberately absent: moving what runs (proposals of `Prepare` and `Commit` are another issue), the time to reach a
//! peer (a prompt's ids are small beside its prefill), and any state that a successor would need: a new leader starts
//! with what digests say, and is wrong about the last second at most.

mod candidate;
mod fitness;
mod machine;
mod place;
mod reservations;
mod search;
#[cfg(test)]
mod tests;

pub use machine::{Coordinator, CoordinatorConfig};
