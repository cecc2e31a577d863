//! What a peer does: the agent behind the `idlewild` binary.
//!
//! ```text
//! client --HTTP--> api --> origin --place--> coordinator-lib        cli --HTTP--> api (control routes)
//!                            |                    ^
//!                            v                    | digests
//!                          worker --> engine      swarm
//!
//! owner --> sessions (store) --> digest          config, store and models: what is on disk
//! ```
//!
//! One folder owns each outside thing; none of them decides anything about a peer: that is coordinator-lib's part.

pub mod api;
pub mod cli;
pub mod config;
pub mod driver;
pub mod models;
pub mod origin;
pub mod owner;
pub mod store;
pub mod worker;
