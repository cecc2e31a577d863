//! What the protocol crate promises, one file a promise.
//!
//! `samples` holds one value of every message; the bytes that they must have are in `docs/wire.md`, which `wire_doc` reads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocation;
mod anything;
mod erased;
mod frames;
mod hostile;
mod ids;
mod limits;
mod membership;
mod plans;
mod round_trip;
mod samples;
mod survival;
mod times;
mod version;
mod wire_doc;
