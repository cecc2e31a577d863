//! `models.json`: which models are in the store. Read anew each time, since the command line may add one at any moment.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use idlewild_protocol::ModelInfo;
use serde::{Deserialize, Serialize};

/// The only layout so far.
const FORMAT: u32 = 1;

/// A file as it was when its hash was known to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    size: u64,
    modified_ns: u128,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(about: &Metadata) -> Self {
        let since = about.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        Self { size: about.len(), modified_ns: since.map_or(0, |since| since.as_nanos()), inode: inode(about) }
    }
}

#[cfg(unix)]
fn inode(about: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(about)
}

#[cfg(not(unix))]
fn inode(_about: &Metadata) -> u64 {
    0
}

/// A model on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(flatten)]
    pub(super) info: ModelInfo,
    pub(super) architecture: String,
    pub(super) verified: Stamp,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Catalogue {
    format: u32,
    pub(super) models: Vec<Entry>,
}

impl Catalogue {
    /// Reads `models.json`; none of it is an empty catalogue.
    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(file_of(dir)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { format: FORMAT, models: Vec::new() });
            }
            text => text?,
        };
        let catalogue: Self = serde_json::from_str(&text).map_err(io::Error::other)?;
        if catalogue.format == FORMAT {
            Ok(catalogue)
        } else {
            Err(io::Error::other("it was written by a newer idlewild"))
        }
    }

    /// Changes `models.json` while no other process does, whole or not at all.
    pub(super) fn change<T, E: From<io::Error>>(
        dir: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(dir.join("models.lock"))?;
        File::lock(&lock)?;
        let mut catalogue = Self::read(dir)?;
        let outcome = change(&mut catalogue)?;
        let text = serde_json::to_string_pretty(&catalogue).map_err(io::Error::other)?;
        let file = tempfile::NamedTempFile::new_in(dir)?;
        std::fs::write(file.path(), text)?;
        file.as_file().sync_all()?;
        file.persist(file_of(dir)).map_err(|e| e.error)?;
        Ok(outcome)
    }
}

pub(super) fn file_of(dir: &Path) -> PathBuf {
    dir.join("models.json")
}
