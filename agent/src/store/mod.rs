//! State on disk: secrets in files of their own, everything else in one SQLite database.
//!
//! ```text
//! data/   lock           held by one process at a time          state/  api-key     the local API's secret
//!         identity.json  secret key, bound to this machine              agent.json  where the running agent listens
//!         membership.json  swarm, certificate
//!         idlewild.db    sessions, election, tickets, links, requests
//! ```
//!
//! A secret that is empty, damaged or readable by others stops the start with a message that says what to do: a weak
//! secret is worse than none. A database that is full or read-only does not stop the serving of requests.

mod api_key;
mod database;
mod file;
mod identity;
mod lock;
mod machine;
mod membership;
mod running;
mod standing;
#[cfg(test)]
pub(crate) mod tiny_disk;

pub use api_key::load_or_create_api_key;
pub use database::{
    Boot, ForecastRecord, ImportRefused, ImportedSession, LinkRecord, MAX_FORECASTS, MAX_REQUESTS, MAX_SESSIONS,
    OpenSession, RateRecord, SessionId, SessionMoment, SessionRecord, Store, StoreError, cause_names, named_cause,
};
#[cfg(all(test, unix))]
pub(crate) use file::make_fifo;
pub use file::{FileError, open_regular, read_secret, write_secret};
pub use identity::{IdentityError, IdentitySeed, keep_identity, load_or_create_identity, reset_identity};
pub use lock::{DataLock, LockError};
pub use machine::{MachineMark, machine_boot};
pub use membership::{
    MembershipError, StoredMembership, SwarmKey, TICKET_TTL_S_MAX, TICKET_TTL_S_MIN, load_membership,
    load_or_found_membership, new_ticket,
};
pub use running::{Running, read_running, remove_running, write_running};
pub use standing::{StandingOrders, read_standing_orders, write_standing_orders};

/// Seconds since 1970 by this machine's clock; 0 for a clock before that.
pub fn unix_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
