//! What an Idlewild peer decides, apart from what it does: hazards, expected cost, placement and migration.
//!
//! ```text
//! sessions --> hazard --> cost --> policy --> coordinator   where should a request run?
//! digests  --> view  ----------------------------^
//!                \-----> election                           who answers that?
//!                        ownership                          the request itself, at its origin
//! answers  --> length                                       how many tokens are still to come?
//! ```
//!
//! Pure and sans-I/O: time, seeds and measurements are arguments, so that the same call gives the same answer in the
//! agent, in a test and in a simulation. Arrows point one way: `hazard` <- `cost` <- `policy` <- `coordinator`;
//! `election`, `ownership` and `length` know none of them.
//!
//! Deliberately absent: clocks, threads, files, sockets, the environment, and anything whose order hangs on a hash seed.

pub mod coordinator;
pub mod cost;
pub mod election;
pub mod hazard;
pub mod length;
pub mod ownership;
pub mod policy;
pub mod view;

mod pairs;

/// Time since the agent started, by a monotonic clock that counts suspension. The shell gives it.
pub type Now = core::time::Duration;
