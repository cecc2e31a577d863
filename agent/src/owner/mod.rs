//! Whether the owner of this machine is there, and the sessions that follow from it.
//!
//! ```text
//! lookout (in other sessions) --words--.
//! layers --sightings--> Detected (Fuser, pure) --.
//! Scripted, AlwaysIdle ---------- OwnerSource --reports--> SessionTracker (pure) --changes--> driver and SessionLog
//!                                                            ^ blocks, one a cause  \--checkpoints--> calibration
//!                                  conditions --> rules (pure) --'-- notice (logind)
//! ```
//!
//! Whatever cannot be seen counts as present.

#[cfg(target_os = "linux")]
mod bus;
mod calibration;
pub mod conditions;
mod detected;
mod fuse;
mod layers;
#[cfg(test)]
mod life_tests;
mod log;
#[cfg(target_os = "linux")]
pub mod lookout;
pub mod notice;
pub mod rules;
mod scripted;
mod session;
mod sighting;
mod source;
mod times;

pub use calibration::{CHECKPOINTS, HORIZONS_S, outcomes};
pub use detected::Detected;
pub use fuse::{FuseInput, Fuser, LEAP, LOCK_DELAY};
pub use log::SessionLog;
pub use scripted::{ScriptError, Scripted};
pub use session::{AWAKENING, BEAT, SLEPT, SessionChange, SessionInput, SessionTracker};
pub use sighting::{LayerKind, OwnerSight, SeenLookout, SeenScreen, SeenSession, SeenTerminal, Shows, Sighting};
pub use source::{AlwaysIdle, Hearing, NextReport, OwnerReport, OwnerSource, OwnerState, owner_source};
