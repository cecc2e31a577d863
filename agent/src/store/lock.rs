//! One process at a time uses a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::time::Instant;

use core::time::Duration;

use crate::config::Paths;

/// How long somebody who only asks whether a directory is held may hold it.
const PROBE_MAX: Duration = Duration::from_millis(250);

/// Between two attempts.
const BETWEEN: Duration = Duration::from_millis(10);

/// The data directory is not free.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error(
        "another idlewild process ({pid}) uses {directory}\nhint: stop it first with `idlewild down`, or give this one a directory of its own with --home"
    )]
    Held {
        /// What the other wrote about itself.
        pid: String,
        /// The data directory.
        directory: PathBuf,
    },
    /// The lock file cannot be made.
    #[error("could not lock {path}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Holds the data directory until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

impl DataLock {
    /// Takes the data directory, which must exist.
    pub fn take(paths: &Paths) -> Result<Self, LockError> {
        let path = paths.lock_file();
        let failed = |source| LockError::Io { path: path.clone(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let until = Instant::now() + PROBE_MAX;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // Whoever asks whether it is held holds it for a moment.
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(BETWEEN),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Held { pid: read_pid(&mut file), directory: paths.data.clone() });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        // Only for the message above: a full disk must not keep an agent from starting.
        let _ = write_pid(&mut file);
        Ok(Self { _file: file })
    }

    /// Whether somebody holds the data directory now.
    pub fn is_held(paths: &Paths) -> bool {
        open_held(paths).is_some()
    }

    /// The process that holds the data directory now, as it wrote itself down.
    pub fn holder(paths: &Paths) -> Option<u32> {
        let mut text = String::new();
        open_held(paths)?.take(16).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

fn open_held(paths: &Paths) -> Option<File> {
    let file = open(paths).ok()?;
    matches!(file.try_lock(), Err(TryLockError::WouldBlock)).then_some(file)
}

fn open(paths: &Paths) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(paths.lock_file())
}

fn read_pid(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.take(16).read_to_string(&mut text);
    let text = text.trim();
    if text.is_empty() { "pid unknown".to_owned() } else { format!("pid {text}") }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_has_one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.create().unwrap();
        assert!(!DataLock::is_held(&paths));
        let lock = DataLock::take(&paths).unwrap();
        assert!(DataLock::is_held(&paths));
        assert_eq!(DataLock::holder(&paths), Some(std::process::id()));
        let error = DataLock::take(&paths).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())) && error.contains("--home"), "{error}");
        drop(lock);
        let probed = open(&paths).unwrap();
        probed.try_lock().unwrap();
        let taking = std::thread::spawn({
            let paths = paths.clone();
            move || DataLock::take(&paths).map(drop)
        });
        drop(probed);
        assert!(taking.join().unwrap().is_ok(), "a probe is outlasted");
        assert!(!DataLock::is_held(&paths));
        assert_eq!(DataLock::holder(&paths), None);
        DataLock::take(&paths).unwrap();
    }
}
