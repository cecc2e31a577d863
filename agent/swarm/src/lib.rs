//! Idlewild's network: peers of one swarm find each other, prove that they belong, and talk.
//!
//! ```text
//! agent --Swarm: send, open_*, probe--> event loop --libp2p--> QUIC: control, jobs     TCP: bulk
//! agent <--SwarmEvent (bounded)---------- conversations, one a peer (heartbeats are answered there)
//! ```
//!
//! The only crate that names libp2p, and a crate of its own because instantiating libp2p's swarm is slow to compile (36
//! CPU seconds with these behaviours, 95 in a trial with many more; a lower opt-level saves a tenth of it). It runs on
//! threads of its own: a slow agent delays its messages, not its heartbeats.
//!
//! Invariant: nothing but `hello` is served on a connection before its peer has proved to be a member.
//! Invariant: every queue, stream count and retry is bounded; what does not fit is refused, never dropped in silence.
//!
//! Deliberately absent: gossipsub (digests go straight to connected peers, see the agent) and identify (it would tell
//! strangers our addresses; docs/adr/0011 says more), relays and hole punching, and every decision about who should do what.

mod address;
mod backoff;
mod behaviour;
mod book;
mod budget;
mod config;
mod contexts;
mod control;
mod dialing;
mod error;
mod event;
mod event_loop;
mod frames;
mod gate;
mod handle;
mod heartbeat;
mod hello;
mod identity;
mod interfaces;
mod jobs;
mod join;
mod listen;
mod membership;
mod multicast;
mod muxer;
mod peer;
mod probe;
mod relaying;
mod sparse;
mod start;
mod streams;
#[cfg(test)]
mod tests;
mod transport;

pub use address::is_peer_address;
pub use config::{SwarmConfig, TicketDesk};
pub use contexts::{ContextClient, ContextRange, ContextServer, PULLS_MAX, Pulled};
pub use error::{
    AnswerError, ContextFault, ContextLost, JobLost, JoinError, OpenError, ProbeError, PullError, SendError, StartError,
};
pub use event::{Departure, Hint, RefusedBy, SwarmEvent};
pub use handle::{Swarm, Traffic};
pub use identity::Identity;
pub use interfaces::InterfaceFilter;
pub use jobs::{JobClient, JobServer};
pub use join::{Joined, join};
pub use membership::{Founded, IssueError, Membership, found_swarm, issue_member};
pub use peer::PeerLink;
pub use probe::Probe;
pub use relaying::RelayMode;
pub use start::start;
