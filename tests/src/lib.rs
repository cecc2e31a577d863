//! What the end-to-end tests stand on: whole networks on one machine, and real agents in them.
//!
//! ```text
//! Lab (one test's world: namespaces, files, logs; gone when the test ends, however it ends)
//!  |-- Segment   an Ethernet: a bridge, or a user-space switch with delay, jitter, loss and rate (relay)
//!  |-- Host      a network namespace: interfaces, addresses, filters, shaping, cut cables
//!  |-- desktop   screens, buses and logins of a person who is not there
//!  |-- Agent     a real `idlewild` process on a host: invited, joined, killed, frozen, resumed
//!  |    `-- Client   what a program on that host would be: HTTP and streams, from inside the namespace
//!  `-- Rogue     a member of the swarm that does not keep to the rules, on threads inside a host's namespace
//! ```
//!
//! Traffic stays on loopback and in the namespaces of the lab; the root namespace's interfaces are never touched.
//! Where namespaces are not allowed each test says so in one line that starts with `SKIPPED`, and fails if
//! `IDLEWILD_REQUIRE_NETNS=1` says that they ought to be.
//!
//! Deliberately absent: a simulated clock or network. What can be simulated is tested in `coordinator-lib`; here run the
//! programs that people run.

pub mod agent;
pub mod bus;
pub mod client;
pub mod desktop;
pub mod lab;
pub mod relay;
pub mod rogue;
mod undisturbed;
mod wait;

pub use agent::{Agent, Cluster, Fake, Launch, Signal};
pub use bus::{Bus, Logind};
pub use client::{Answer, Client, FAKE_MODEL, Piece, REAL_MODEL, Reply, Stream, chat, completion};
pub use lab::{Filter, Host, Lab, Segment, Verdict, in_lab};
pub use rogue::{Manner, Rogue, Seen};
pub use undisturbed::undisturbed;
pub use wait::{eventually, within};
