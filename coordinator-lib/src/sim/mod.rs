//! A simulator of whole swarms: which policy is worth how much, on recorded and on drawn life.
//!
//! ```text
//! input: tables, archetypes --> Scenario (machines, stays, arrivals; settled before the run)
//!                                  |
//! random (ChaCha8, by purpose)     v
//! queue (time, number) ------> run: events --Driver--> steps --> world (fluid: slots, batches, links, standbys)
//!                                  |         \--PolicyDriver: policy::Policy, hazard::Frailty, length::LengthHistory
//!                                  v
//!                               report: figures of a run, of many seeds, and seed by seed of two policies
//! ```
//!
//! Pure like the rest of this crate: text and seeds come in, reports go out. One seed gives one run, byte for byte, on one
//! platform ([`random`]). Behind the feature `sim`; nothing of this crate uses it.
//!
//! What is modelled and what is not: `docs/adr/0021`. Deliberately absent: files, threads, progress, and any rule: whatever
//! decides is asked where the agent asks it.

mod driver;
pub mod fleet;
pub mod input;
mod queue;
pub mod random;
pub mod recorded;
pub mod report;
mod run;
pub mod scenario;
pub mod synthetic;
#[cfg(test)]
mod tests;
mod world;

pub use driver::{Part, PolicyKind, PolicyParts};
pub use run::{Decider, Run, RunOptions, Simulation, run};
