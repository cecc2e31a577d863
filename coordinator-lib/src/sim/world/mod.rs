//! The modelled world: machines, requests, links, and how they pass the time. It decides nothing.
//!
//! ```text
//! Peer (slots, queue, time shared between decoding, prefill and preparations) --+
//! Network (KV flows, links shared fairly) --------------------------------------+--> Swarm --settle--> rates of every Live
//! Live (one request: phase, tokens done and missing, standby) ------------------+
//! ```
//!
//! A fluid model: between two events all rates are constant, and every event that changes one settles the rates of those
//! that it touches. A token counts when all of it is there.

mod network;
mod peer;
mod request;
mod swarm;
mod work;

pub(crate) use network::Network;
pub(crate) use peer::{Leaves, Peer, Presence};
pub(crate) use request::{Filling, Live, NOTHING_TOKENS, Phase, Standby};
pub(crate) use swarm::{Event, Swarm};
pub(crate) use work::Assignment;
