//! What a peer believes of the others, and says of itself.
//!
//! ```text
//! digests (direct or passed on) --> apply: newer? not departed? --> PeerView
//! connected, departed           --> who can be reached            --> candidates (the election's live view)
//! our own measurements          --> links, beside those that digests state
//! anti-entropy: versions <-> lacking_in
//! models that a peer names      --> its digest, where that has no room for them (unstated)
//! digests --> carriers: who serves with a model, sorted       --> a search for the best of many
//! ```
//!
//! A departed peer is never revived by someone else's gossip: only by a later boot of it, or by being connected again.
//!
//! Deliberately absent: any judgement (`coordinator`), and connections themselves (the shell's).

mod anti_entropy;
mod beliefs;
mod carriers;
#[cfg(test)]
mod index_tests;
mod peer;
#[cfg(test)]
mod tests;
mod unstated;

pub use beliefs::{Applied, DIGEST_LIFETIME, MAX_PEERS, View};
pub use carriers::{Carriers, Cell, Group, Offer};
pub use peer::{Link, PeerView};
