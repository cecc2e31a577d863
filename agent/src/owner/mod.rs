//! Whether the owner of this machine is there, and the sessions that follow from it.
//!
//! ```text
//! OwnerSource --reports--> SessionTracker (pure) --changes--> driver (serve, stop) and SessionLog (store)
//!                            ^ blocks, one a cause
//!   conditions --> rules (pure) --'-- notice (logind)
//! ```
//!
//! Deliberately absent: the detector of real activity (screens, logind, terminals). Until it exists, a machine whose
//! owner nobody can see counts as busy.

pub mod conditions;
mod log;
pub mod notice;
pub mod rules;
mod scripted;
mod session;
mod source;

pub use log::SessionLog;
pub use scripted::{ScriptError, Scripted};
pub use session::{SessionChange, SessionInput, SessionTracker};
pub use source::{AlwaysIdle, NextReport, OwnerReport, OwnerSource, OwnerState, Unattended, owner_source};
