//! Drives an agent: one task owns the view, the election and the coordinator, all pure, and maps the world to them.
//!
//! ```text
//! swarm events ---.                                            .--> swarm: digests, votes, answers
//! owner, rules ---+--> event loop --> conversation --> pure  --+--> gate, digest, session log
//! questions ------'      (one task)   (a file each)   machine  '--> answers to origins and API
//! ```
//!
//! Conversations: `presence` (owner and session), `rules` with `watching` (what forbids a session, what the system says),
//! `gossip` with `digests` and `survival`, `coordination` with `votes` and `placements` (election, placement), `plans` with
//! `planner` (reports and plans of what runs), `network` with `links`, `status`, `doctor` and `hazard` (the command line),
//! `tickets` (newcomers).
//! `launch` and `lifetime` are the start and the end.
//!
//! Invariant: the loop never waits, neither for the network nor for the disk: the owner may be coming back.
//! Invariant: a restart of any other part (API, worker, engine) is not seen here but as a change of load.
//!
//! Deliberately absent: decisions about peers. Those are coordinator-lib's.

mod catalogue;
mod clock;
mod coordination;
mod desk;
mod digests;
mod doctor;
mod event_loop;
mod gossip;
mod hazard;
mod launch;
mod lifetime;
mod links;
mod logging;
mod network;
mod placements;
mod planner;
mod plans;
mod presence;
mod rules;
mod status;
mod survival;
mod tasks;
mod tickets;
mod votes;
mod watching;

pub use catalogue::{Catalogue, KnownModel};
pub use clock::Clock;
pub use desk::{Ask, Desk, DeskBack, InviteRefused, NoAnswer, Readiness};
pub use hazard::recorded_hazard;
pub use launch::{EnginePlace, FAKE_MODEL, Launch};
pub use lifetime::{RunError, run, run_until};
pub use logging::{LogError, start_logging};

use event_loop::Driver;
