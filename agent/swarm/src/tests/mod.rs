//! Several swarms in one process, on loopback, with nothing simulated but the world around them.
//!
//! Inside the crate, since hostile peers speak libp2p and the crate is the only one that may.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test waits for one event of many")]

mod contexts;
mod hostile;
mod jobs;
mod membership;
mod presence;
#[cfg(unix)]
mod processes;
mod relay;
mod world;
