//! Copies that are being made: held by their makers, and cleared away where a maker was killed.
//!
//! A copy is a file with a beginning of its own in its name, locked by the process that writes it. Both happen under the
//! store's lock, and so does clearing: a copy that nobody holds then has nobody.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

use super::catalogue::lock;

/// How the name of an unfinished file begins, here and where the catalogue is written.
const BEGINNING: &str = ".tmp";

/// A file to copy into, in the store at `dir`.
pub(super) fn begin(dir: &Path) -> io::Result<NamedTempFile> {
    let _lock = lock(dir)?;
    let copy = tempfile::Builder::new().prefix(BEGINNING).tempfile_in(dir.join("blobs"))?;
    File::lock(copy.as_file())?;
    Ok(copy)
}

/// Removes what killed processes have left in the store at `dir`. Gives how many files that were.
pub(super) fn clear(dir: &Path) -> io::Result<usize> {
    let _lock = lock(dir)?;
    let mut removed = 0;
    for folder in [dir.to_owned(), dir.join("blobs")] {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let is_unfinished = entry.file_name().to_string_lossy().starts_with(BEGINNING);
            if is_unfinished && entry.file_type()?.is_file() && !is_held(&entry.path()) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

fn is_held(path: &Path) -> bool {
    // Where it cannot be opened nobody can tell: it stays.
    File::open(path).map_or(true, |file| file.try_lock().is_err())
}

/// Bytes that a file in `dir` may still take; none where the system does not say.
#[cfg(unix)]
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(dir).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_bytes(_dir: &Path) -> Option<u64> {
    None
}
