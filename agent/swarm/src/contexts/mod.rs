//! Contexts on their way from one peer to another, on the connection for bulk.
//!
//! ```text
//! destination                                            holder
//! ContextClient --Range--> receive  --Pull, Received-->  transmit --Range--> ContextServer
//!               <--Pulled--         <--Chunk, bytes----           <--answer--
//! ```
//!
//! On either side a task has the stream and at most two chunks: one that it reads or writes, one that waits for the agent or
//! for the link. It runs where the agent runs and hashes there, so that the swarm's own thread only moves bytes.
//!
//! How much is on its way is the [`pacer`]'s decision: tokens and heartbeats share the link with what is sent here.

mod client;
mod meter;
mod pacer;
mod receive;
mod server;
#[cfg(test)]
mod tests;
mod transmit;

use core::time::Duration;

use idlewild_protocol::{MAX_CHUNK_TOKENS, PeerId};

use crate::PullError;

pub use client::{ContextClient, Pulled};
pub use server::ContextServer;
pub(crate) use server::{MAX_PER_PEER, MAX_SENT, accept, turn_away};

/// Pulls that may be under way on one stream.
pub const PULLS_MAX: usize = 4;

/// How long a stream may stand still while something is to come, before it is given up. Above any pause of a live peer (its
/// liveness timeout is 1.5 s), and of an engine that exports a chunk.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// How long a stream that ends may go on to deliver what was written.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Positions of a context, counted from the beginning of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextRange {
    /// The first.
    pub from: u32,
    /// One after the last.
    pub to: u32,
}

impl ContextRange {
    /// The range, if a chunk may be of it.
    fn checked(from: u32, to: u32) -> Result<Self, PullError> {
        match to.checked_sub(from) {
            Some(1..=MAX_CHUNK_TOKENS) => Ok(Self { from, to }),
            Some(_) | None => Err(PullError::BadRange),
        }
    }
}

/// Whose stream a task has, and on what terms.
#[derive(Debug)]
struct Terms {
    peer: PeerId,
    silence_limit: Duration,
}
