//! Where the running agent listens, for the command line of the same user.

use std::fs;

use serde::{Deserialize, Serialize};

use super::file::{FileError, read_secret, write_secret};
use crate::config::Paths;

/// What the agent writes once its API listens, and removes when it stops. After a crash it stays and says nothing:
/// whether an agent runs is told by asking it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    /// Where its API listens, `address:port`.
    pub api: std::net::SocketAddr,
    /// Seconds since 1970 when it started.
    pub started_s: u64,
    /// Of its binary.
    pub version: String,
}

/// Writes `state/agent.json`.
pub fn write_running(paths: &Paths, running: &Running) -> Result<(), FileError> {
    let path = paths.running_file();
    let text = serde_json::to_string(running)
        .map_err(|e| FileError::Write { path: path.clone(), source: std::io::Error::other(e) })?;
    write_secret(&path, &text)
}

/// What the agent of these directories wrote; none where there is no such file, or none of ours. Fails where it may be
/// there and cannot be read.
pub fn read_running(paths: &Paths) -> Result<Option<Running>, FileError> {
    let text = read_secret(&paths.running_file(), "start the agent")?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Removes `state/agent.json`.
pub fn remove_running(paths: &Paths) {
    // Best effort at the end of a process: a stale file is recognised by asking.
    let _ = fs::remove_file(paths.running_file());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_finds_what_the_agent_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.create().unwrap();
        assert_eq!(read_running(&paths).unwrap(), None);
        let running =
            Running { pid: 7, api: "127.0.0.1:14353".parse().unwrap(), started_s: 1, version: "0.1.0".into() };
        write_running(&paths, &running).unwrap();
        assert_eq!(read_running(&paths).unwrap(), Some(running));
        remove_running(&paths);
        assert_eq!(read_running(&paths).unwrap(), None);
    }
}
