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
    /// When anything about the file last changed; nobody can set it back. 0 where it is not known.
    #[serde(default)]
    changed_ns: i128,
}

impl Stamp {
    pub(super) fn of(about: &Metadata) -> Self {
        let since = about.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        Self {
            size: about.len(),
            modified_ns: since.map_or(0, |since| since.as_nanos()),
            inode: inode(about),
            changed_ns: changed_ns(about),
        }
    }

    /// Whether the file, now as `about` says, is the one that was hashed. A file with several names is told by the other
    /// marks: each link made or removed changes its time too, whichever store makes it.
    pub(super) fn is_of(&self, about: &Metadata) -> bool {
        let now = Self::of(about);
        *self == now || (has_links(about) && *self == Self { changed_ns: self.changed_ns, ..now })
    }
}

#[cfg(unix)]
fn inode(about: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(about)
}

#[cfg(unix)]
fn changed_ns(about: &Metadata) -> i128 {
    use std::os::unix::fs::MetadataExt;
    i128::from(about.ctime()) * 1_000_000_000 + i128::from(about.ctime_nsec())
}

#[cfg(unix)]
fn has_links(about: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(about) > 1
}

#[cfg(not(unix))]
fn inode(_about: &Metadata) -> u64 {
    0
}

#[cfg(not(unix))]
fn changed_ns(_about: &Metadata) -> i128 {
    0
}

#[cfg(not(unix))]
fn has_links(_about: &Metadata) -> bool {
    false
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
        let _lock = lock(dir)?;
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

/// Keeps other processes from changing what is in the store, as long as it lives.
pub(super) fn lock(dir: &Path) -> io::Result<File> {
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(dir.join("models.lock"))?;
    File::lock(&lock)?;
    Ok(lock)
}

pub(super) fn file_of(dir: &Path) -> PathBuf {
    dir.join("models.json")
}
