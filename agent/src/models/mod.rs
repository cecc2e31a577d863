//! The models on this machine's disk.
//!
//! ```text
//! file --gguf (what is it?)--> store (copy, sha256) --> blobs/sha256-<hex>, models.json --re-stat--> engine
//! ```
//!
//! A file is hashed once, when it is imported; before each load its size, times and inode are compared, and only a
//! difference makes the engine hash it again. Deliberately absent for now: other programs' model stores, downloads.

mod catalogue;
mod copying;
mod gguf;
mod store;

pub use gguf::{GgufError, GgufHeader, read_gguf_header};
pub use store::{MIN_ID_PREFIX, ModelError, ModelStore, ModelToLoad, StoredModel};
