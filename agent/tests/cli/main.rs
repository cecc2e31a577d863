//! The binary as people and scripts use it: what it prints, where, and how it ends.
//!
//! All agents here use the fake engine, listen on loopback only and have a home of their own in a temporary directory.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod home;
mod lonely;
mod models;
mod serving;
mod state;

/// Exit codes, written down once more: they are an interface.
mod exit {
    pub(crate) const FINE: i32 = 0;
    pub(crate) const FAILED: i32 = 1;
    pub(crate) const USAGE: i32 = 2;
    pub(crate) const NO_AGENT: i32 = 3;
    pub(crate) const NO_PEER: i32 = 4;
    pub(crate) const NOT_FOUND: i32 = 5;
    pub(crate) const STATE: i32 = 6;
    pub(crate) const PIPE_CLOSED: i32 = 141;
}
