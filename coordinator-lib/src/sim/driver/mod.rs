//! Who decides: the seam between the modelled world and the rules of this crate.
//!
//! ```text
//! Swarm --what a coordinator could know--> Driver --Step--> the run carries it out
//!                                            |
//!                                            +-- PolicyDriver: asks policy::Policy at once, with what digests would say
//!                                            +-- CoordinatorDriver: asks a Coordinator, by digests, questions and reports
//! ```
//!
//! A driver sees the world as agents do: rates, queues and slots as they are, the chance to stay by digests, lengths as they
//! are believed. Only oracles are told more.

mod coordinator;
mod hazards;
mod kind;
mod lengths;
mod moves;
mod offers;
mod policy;
mod published;

use idlewild_protocol::DepartureCause;

use super::scenario::Arrival;
use super::world::Swarm;
use crate::cost::{PlannedCost, Way};

pub(crate) use coordinator::CoordinatorDriver;
pub use kind::{Part, PolicyKind, PolicyParts};
pub(crate) use moves::carries_kv;
pub(crate) use policy::PolicyDriver;

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// Nothing.
    Stay,
    /// From the queue that it is in to another peer.
    Requeue {
        /// Which.
        to: usize,
    },
    /// Have a peer prepare, or go on to.
    Prepare {
        /// Which.
        to: usize,
        /// How.
        way: Way,
    },
    /// Have the standby keep up.
    Hold,
    /// Have it keep what it has.
    Pause,
    /// Give up what was prepared.
    Release,
    /// Stop the source and go on elsewhere.
    Commit {
        /// Where.
        to: usize,
        /// How the rest gets there.
        way: Way,
    },
    /// By the rule as given: stop, move all of the context, go on.
    Move {
        /// Where to.
        to: usize,
        /// How.
        planned: PlannedCost,
    },
}

/// Decides, and learns.
pub(crate) trait Driver: core::fmt::Debug {
    /// A stay of `peer` begins.
    fn begin(&mut self, now_s: f64, peer: usize);

    /// It ends: by a departure, or by the end of what is recorded.
    fn end(&mut self, now_s: f64, peer: usize, cause: Option<DepartureCause>);

    /// A request comes: tokens of output that are expected of it.
    fn expect(&mut self, arrival: &Arrival) -> u32;

    /// An answer is complete.
    fn finished(&mut self, arrival: &Arrival);

    /// Where a request that nobody has should run.
    fn place(&mut self, swarm: &Swarm, request: usize) -> Option<usize>;

    /// Whether it wants to look at requests that somebody has.
    fn looks(&self) -> bool;

    /// Whether it acts on what a peer says of its departure.
    fn heeds_notices(&self) -> bool;

    /// Whether what runs on a peer must be looked at more often: it will leave soon, as far as the driver knows.
    fn is_urgent(&self, swarm: &Swarm, peer: usize) -> bool;

    /// What to do with a request that somebody has.
    fn look(&mut self, swarm: &Swarm, request: usize) -> Step;
}
