//! Where the kernel's files are.

use std::fs;
use std::path::{Path, PathBuf};

/// A longer file of /proc or /sys is not one that we read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The directory that holds `proc` and `sys`: `/`, or one that a test has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    root: PathBuf,
}

impl Roots {
    /// Under `root`.
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn proc(&self, path: &str) -> PathBuf {
        self.root.join("proc").join(path)
    }

    pub(super) fn sys(&self, path: &str) -> PathBuf {
        self.root.join("sys").join(path)
    }
}

/// The text of a file, without blanks around it; none where it cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// The number in a file.
pub(super) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// The entries of a directory; none where there is no such.
pub(super) fn entries(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// A tree of files for tests, by path from the root.
#[cfg(test)]
pub(super) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let roots = Roots::under(dir.path());
    (dir, roots)
}
