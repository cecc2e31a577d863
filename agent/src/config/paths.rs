//! Where this agent keeps its files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use directories::ProjectDirs;

/// The directories could not be found or made.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// The system names no home directory for this user.
    #[error("this user has no home directory; name a directory with --home or IDLEWILD_HOME")]
    NoHome,
    /// A directory could not be made or protected.
    #[error("could not make the directory {path} (nothing was started; check its owner and the free space)")]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The four directories of this agent. Nothing is made before [`Paths::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `config.toml`: what the user edits.
    pub config: PathBuf,
    /// What may be lost without harm: the API key, who runs, the address book, the owner's control file.
    pub state: PathBuf,
    /// What must not be lost: identity, membership, history, models.
    pub data: PathBuf,
    /// What can be had again.
    pub cache: PathBuf,
}

impl Paths {
    /// The directories under `home` if it is given (flag `--home` or `IDLEWILD_HOME`), else where this system wants them.
    pub fn resolve(home: Option<&Path>) -> Result<Self, PathsError> {
        home.map_or_else(Self::of_system, |home| Ok(Self::under(home)))
    }

    /// All four directories under one, as tests and clusters on one machine use them.
    pub fn under(home: &Path) -> Self {
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        Self {
            config: home.join("config"),
            state: home.join("state"),
            data: home.join("data"),
            cache: home.join("cache"),
        }
    }

    fn of_system() -> Result<Self, PathsError> {
        let dirs = ProjectDirs::from("", "", "idlewild").ok_or(PathsError::NoHome)?;
        Ok(Self {
            config: dirs.config_dir().to_owned(),
            // macOS and Windows have no directory for state.
            state: dirs.state_dir().map_or_else(|| dirs.data_local_dir().join("state"), Path::to_owned),
            data: dirs.data_local_dir().to_owned(),
            cache: dirs.cache_dir().to_owned(),
        })
    }

    /// Makes what is missing, readable by this user only.
    pub fn create(&self) -> Result<(), PathsError> {
        for dir in [&self.config, &self.state, &self.data, &self.cache] {
            make_private(dir).map_err(|source| PathsError::Create { path: dir.clone(), source })?;
        }
        Ok(())
    }

    /// The user's settings.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// This peer's secret key and the machine that it belongs to (0600).
    pub fn identity_file(&self) -> PathBuf {
        self.data.join("identity.json")
    }

    /// The swarm, this peer's certificate, and the swarm's key if this peer founded it (0600).
    pub fn membership_file(&self) -> PathBuf {
        self.data.join("membership.json")
    }

    /// Sessions, tickets, links, the election's term, requests.
    pub fn database_file(&self) -> PathBuf {
        self.data.join("idlewild.db")
    }

    /// Content-addressed models, unless the settings name another directory.
    pub fn models_dir(&self) -> PathBuf {
        self.data.join("models")
    }

    /// Held while an agent (or a command that changes identity or membership) uses the data directory.
    pub fn lock_file(&self) -> PathBuf {
        self.data.join("lock")
    }

    /// The key of the local API (0600).
    pub fn api_key_file(&self) -> PathBuf {
        self.state.join("api-key")
    }

    /// Where the running agent's API listens; removed when it stops.
    pub fn running_file(&self) -> PathBuf {
        self.state.join("agent.json")
    }

    /// Addresses at which peers were reached before.
    pub fn address_book_file(&self) -> PathBuf {
        self.state.join("address-book")
    }

    /// What the scripted owner source reads, unless the settings name another file.
    pub fn owner_control_file(&self) -> PathBuf {
        self.state.join("owner-control")
    }

    /// A pause, and what was exchanged today.
    pub fn rules_file(&self) -> PathBuf {
        self.state.join("rules.json")
    }

    /// The log of a detached agent.
    pub fn log_file(&self) -> PathBuf {
        self.state.join("agent.log")
    }
}

#[cfg(unix)]
fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn make_private(dir: &Path) -> io::Result<()> {
    // A user's own profile is private by its inherited access list.
    fs::create_dir_all(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_holds_all_four_directories() {
        let paths = Paths::resolve(Some(Path::new("/h"))).unwrap();
        for dir in [&paths.config, &paths.state, &paths.data, &paths.cache] {
            assert!(dir.starts_with("/h"), "{dir:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn new_directories_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("new"));
        paths.create().unwrap();
        paths.create().unwrap();
        for dir in [&paths.config, &paths.state, &paths.data, &paths.cache] {
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{dir:?}");
        }
    }
}
