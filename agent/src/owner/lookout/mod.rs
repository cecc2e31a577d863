//! Lookouts: a program in a session that tells an agent outside it what the session's screen shows of its owner.
//!
//! ```text
//! in the session (any account)                           the agent (a service of the system)
//! layers --sightings--> Board (pure) --words--> socket --SO_PEERCRED--> layers/linux/lookouts --> Fuser
//! ```
//!
//! An agent that belongs to no session cannot see a screen: X servers and compositors talk to their own user only. The same
//! program, started as `idlewild lookout` in the session, can. What travels is whether there is input, and since when there is
//! none: never the input itself.
//!
//! Invariant: a lookout speaks of its own account's sessions only. By whatever it says it cannot make another's idle.
//!
//! Deliberately absent: any decision, and anything that the agent sees by itself (logins, locks, terminals).

mod board;
mod lines;
mod message;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use crate::config::OwnerSettings;

pub(super) use lines::{Lines, NoLine};
pub(super) use message::{Answer, Hello, VERSION, Word};
pub use watch::{LookoutError, LookoutNews, keep_watch};

/// The socket's name in the folder of the service.
const NAME: &str = "lookouts.sock";

/// The folder that a service manager makes for the agent where the agent is a service of the system.
const FOLDER: &str = "/run/idlewild";

/// Names that folder for the service itself, as systemd does.
const FOLDER_VARIABLE: &str = "RUNTIME_DIRECTORY";

/// How often a lookout says something if nothing happens.
const BEAT: Duration = Duration::from_secs(4);

/// A lookout that says nothing for this long is believed no more: three beats.
pub(super) const SILENCE: Duration = Duration::from_secs(12);

/// The first account that is a person's, as Linux distributions number them.
pub(super) const FIRST_PERSON: u32 = 1000;

/// Where an agent listens to lookouts; none where it does not.
pub fn listening_socket(settings: &OwnerSettings) -> Option<PathBuf> {
    if !settings.lookout_socket.is_empty() {
        return Some(PathBuf::from(&settings.lookout_socket));
    }
    let folders = std::env::var_os(FOLDER_VARIABLE).filter(|folders| !folders.is_empty())?;
    std::env::split_paths(&folders).next().map(|folder| folder.join(NAME))
}

/// Where a lookout finds its agent.
pub fn agents_socket(settings: &OwnerSettings) -> PathBuf {
    if settings.lookout_socket.is_empty() {
        PathBuf::from(FOLDER).join(NAME)
    } else {
        PathBuf::from(&settings.lookout_socket)
    }
}
