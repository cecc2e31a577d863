//! Several swarms in one process, on loopback, with nothing simulated but the world around them.
//!
//! Inside the crate, since hostile peers speak libp2p and the crate is the only one that may.

mod hostile;
mod jobs;
mod membership;
mod presence;
mod processes;
mod world;
