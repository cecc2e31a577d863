//! Where a request runs, and when it moves.
//!
//! One trait, [`Policy`], and the rules that are compared with each other. Every decision is a value that carries its
//! terms for the chosen and the rejected peers, so that a person can ask why, and a test can.
//!
//! ```text
//! Fleet (rates, load, hazard of each peer) + Work --place--> Placement (chosen, and every peer's terms)
//!       + Running ----------------------------should_migrate--> Migration (move or stay, and why; every candidate)
//! RunningRequest (source, candidates, standby) ---decide------> Decision (prepare, hold, commit, ..; every candidate)
//! ```
//!
//! The rule as given moves in one step, and is asked `should_migrate`; the corrected one ([`overlapped`]) moves only what
//! has been prepared, and is asked `decide`.
//!
//! Peers are told apart by the caller's key, and their order matters: every tie is won by the first.
//!
//! Deliberately absent: how often to ask (the caller's timer), and peers that cannot serve whatever the work (the caller
//! leaves them out).

mod baselines;
mod fleet;
mod hazard_aware;
mod migration;
mod oracle_full;
pub mod overlapped;
mod placement;
#[cfg(test)]
mod tests;

pub use baselines::{LoadAware, OraclePlacement, Random, ReactiveFastest};
pub use fleet::{Fleet, FleetPeer};
pub use hazard_aware::{HazardAwarePolicy, MigrationModel};
pub use migration::{Migration, MigrationLimits, MoveCandidate, MoveDecision, Running, StayReason};
pub use oracle_full::OracleFull;
pub use placement::{Assessment, Misfit, Placement, Verdict};

use self::overlapped::{Because, Decision, RunningRequest};
use crate::cost::Work;

/// A rule that says where requests run and when they move.
pub trait Policy<K> {
    /// What people and results call it.
    fn name(&self) -> &'static str;

    /// Where `work` should begin, or begin again.
    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K>;

    /// Whether a request that runs should move before its peer leaves.
    fn should_migrate(&self, fleet: &Fleet<'_, K>, running: &Running<K>) -> Migration<K>;

    /// What to prepare, keep or hand over for a request that runs. Policies that prepare nothing stay.
    fn decide(&self, request: &RunningRequest<'_, K>) -> Decision<K>
    where
        K: Copy + PartialEq,
    {
        let _ = request;
        Decision::unexamined(Because::NotAsked)
    }
}
