//! Files that hold secrets: private, written whole or not at all, and refused when they are not as they should be.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// More than any of our secret files takes; a longer one is not ours.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// A secret file cannot be used. The file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("could not read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written. What was there before is still there.
    #[error("could not write {path} (what was there before is unchanged; is the disk full or read-only?)")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others on this machine may read or change it.
    #[error(
        "{path} may be read by other users (mode {mode:03o})\nhint: if it was not seen by others: chmod 600 {path}"
    )]
    Exposed {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is nothing in it.
    #[error("{path} is empty\nhint: {advice}")]
    Empty {
        /// Which.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// There is something else in it.
    #[error("{path} is damaged: {why}\nhint: {advice}")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do.
        advice: &'static str,
    },
}

/// Opens a file to read it. What is no plain file is refused before it is opened: a FIFO would keep the reader waiting.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() { File::open(path) } else { Err(io::Error::other("it is not a plain file")) }
}

/// The text of a secret file; none where there is no such file. `advice` says what to do about an empty one.
pub fn read_secret(path: &Path, advice: &'static str) -> Result<Option<String>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let file = match open_regular(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let about = file.metadata().map_err(failed)?;
    check_mode(path, &about)?;
    let mut bytes = Vec::new();
    file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let damaged = |why: &str| FileError::Damaged { path: path.to_owned(), why: why.to_owned(), advice };
    if bytes.len() as u64 > MAX_SECRET_BYTES {
        return Err(damaged("it is too long"));
    }
    let text = String::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    if text.trim().is_empty() {
        return Err(FileError::Empty { path: path.to_owned(), advice });
    }
    Ok(Some(text))
}

#[cfg(unix)]
fn check_mode(path: &Path, about: &fs::Metadata) -> Result<(), FileError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = about.permissions().mode() & 0o777;
    let of_others = mode & 0o077;
    if of_others == 0 { Ok(()) } else { Err(FileError::Exposed { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_mode(_path: &Path, _about: &fs::Metadata) -> Result<(), FileError> {
    Ok(())
}

/// Replaces the file by one with this text, private to this user. After a crash at any point either the old or the new
/// text is there, never a part.
pub fn write_secret(path: &Path, text: &str) -> Result<(), FileError> {
    write_whole(path, text.as_bytes()).map_err(|source| FileError::Write { path: path.to_owned(), source })
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    // The temporary file is made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_dir(dir)
}

#[cfg(unix)]
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_dir(_dir: &Path) -> io::Result<()> {
    // Directories cannot be opened as files there; a rename is journalled.
    Ok(())
}

/// A FIFO that nobody writes to.
#[cfg(all(test, unix))]
pub(crate) fn make_fifo(path: &Path) -> io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        assert!(read_secret(&path, "x").unwrap().is_none());
        write_secret(&path, "one").unwrap();
        write_secret(&path, "two").unwrap();
        assert_eq!(read_secret(&path, "x").unwrap().as_deref(), Some("two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file was left behind");
    }

    #[test]
    fn exposed_empty_and_strange_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let check = |bytes: &[u8], mode: u32, expected: &str| {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = read_secret(&path, "do this").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"secret", 0o644, "chmod 600");
        check(b"secret", 0o620, "mode 620");
        check(b"", 0o600, "is empty\nhint: do this");
        check(b" \n", 0o600, "is empty");
        check(&[0xff, 0xfe], 0o600, "not text");
        check(&vec![b'a'; 70_000], 0o600, "too long");
    }

    #[test]
    fn a_fifo_in_its_place_is_an_error_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        make_fifo(&path).unwrap();
        assert!(matches!(read_secret(&path, "x"), Err(FileError::Read { .. })));
    }

    #[test]
    fn a_directory_in_its_place_is_an_error_and_not_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read_secret(dir.path(), "x"), Err(FileError::Read { .. })));
        assert!(matches!(write_secret(dir.path(), "x"), Err(FileError::Write { .. })));
    }
}
