//! Whether the owner of this machine is there, and the sessions that follow from it.
//!
//! ```text
//! OwnerSource --reports--> SessionTracker (pure) --changes--> driver (serve, stop) and SessionLog (store)
//!                                                \--checkpoints--> calibration: forecasts, and what came of them
//! ```
//!
//! Deliberately absent: the detector of real activity (screens, logind, terminals). Until it exists, a machine whose
//! owner nobody can see counts as busy.

mod calibration;
#[cfg(test)]
mod life_tests;
mod log;
mod power;
mod scripted;
mod session;
mod source;

pub use calibration::{CHECKPOINTS, HORIZONS_S, outcomes};
pub use log::SessionLog;
pub use power::on_ac;
pub use scripted::{ScriptError, Scripted};
pub use session::{AWAKENING, BEAT, SLEPT, SessionChange, SessionInput, SessionTracker};
pub use source::{AlwaysIdle, NextReport, OwnerReport, OwnerSource, OwnerState, Unattended, owner_source};
