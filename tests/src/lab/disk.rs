//! A file system of a few megabytes, to be filled up.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::command::run;

/// A small file system of its own in the lab's directory. Dropping it unmounts it.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    pub(super) fn mount(path: PathBuf, mebibytes: u32) -> Result<Self> {
        run("mount", &format!("-t tmpfs -o size={mebibytes}m,mode=0700 idlewild-lab {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all room that is left, in a file that is returned and may be removed again.
    pub fn fill(&self) -> Result<PathBuf> {
        let path = self.path.join("filler");
        let mut file = File::create(&path).context("make the filler")?;
        // Ever smaller pieces, so that not even a small file fits afterwards.
        for bytes in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![0; bytes]).is_ok() {}
        }
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.path);
    }
}

/// Unmounts, now or when the last file there is closed.
pub(super) fn unmount(path: &Path) {
    let _ = run("umount", &format!("-l {}", path.display()));
}
