//! Whether the owner of this machine is there, and the sessions that follow from it.
//!
//! ```text
//! layers --sightings--> Detected (Fuser, pure) --.
//! Scripted, AlwaysIdle ---------- OwnerSource --reports--> SessionTracker (pure) --changes--> driver and SessionLog
//! ```
//!
//! Whatever cannot be seen counts as present.

mod detected;
mod fuse;
mod layers;
mod log;
mod scripted;
mod session;
mod sighting;
mod source;
mod times;

pub use detected::Detected;
pub use fuse::{FuseInput, Fuser, LEAP, LOCK_DELAY};
pub use log::SessionLog;
pub use scripted::{ScriptError, Scripted};
pub use session::{SessionChange, SessionInput, SessionTracker};
pub use sighting::{LayerKind, OwnerSight, SeenSession, SeenTerminal, Shows, Sighting};
pub use source::{AlwaysIdle, NextReport, OwnerReport, OwnerSource, OwnerState, owner_source};
