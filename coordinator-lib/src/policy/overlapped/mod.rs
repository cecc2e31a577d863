//! The corrected rule: a destination prepares while the source goes on decoding. `policy.md` section 2.
//!
//! ```text
//! RunningRequest (source, candidates, standby) --weigh--> StayTerms, CandidateTerms --tests--> Decision
//!     PREPARE  is preparing j worth its price?            HOLD    is keeping it warm?
//!     COMMIT   should the request go over?                VETO    may j be a destination at all?
//!     NOTICE   what to make of an announced departure     FALLBACK  who begins anew after a silent one
//! Placing + Hosts --place--> Placement
//! ```
//!
//! Each test is a value with both of its sides, and a method that says whether it passes. A decision carries them for the
//! chosen and for the rejected.
//!
//! Deliberately absent: pruning (the caller names the candidates), timers, several standbys for one request, hazards per
//! cause (an announced departure is a fact here, its chance beforehand is not used), and who tells the peers.

mod candidate;
mod commit;
mod decide;
mod decision;
mod fallback;
mod hold;
mod inputs;
mod notice;
mod parameters;
mod place;
#[cfg(test)]
mod place_tests;
mod prepare;
#[cfg(test)]
mod tests;
mod veto;
mod way;
mod weigh;

pub use commit::CommitTest;
pub use decide::decide;
pub use decision::{Action, Because, CandidateTerms, Decision, StayTerms};
pub use fallback::{Fallback, Fallbacks};
pub use hold::HoldTest;
pub use inputs::{ASSUMED_LOSS_ERROR, Candidate, Host, Leaving, RunningRequest, Site, Standby};
pub use notice::NoticeTest;
pub use parameters::{OverlapLimits, OverlappedParameters};
pub use place::{Placing, place, placement_terms};
pub use prepare::PrepareTest;
pub use veto::Veto;
pub use way::WayChoice;
