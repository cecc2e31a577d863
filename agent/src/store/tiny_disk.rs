//! A file system of one megabyte, for tests of what happens when it is full or read-only.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Unmounted at the end of its test.
pub(crate) struct TinyDisk(TempDir);

impl TinyDisk {
    /// None, said aloud, where this user may not mount one.
    pub(crate) fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"]).arg(dir.path()).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(dir));
        }
        println!("SKIPPED: this user may not mount a tmpfs, so a full or read-only disk was not tried");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn make_read_only(&self) {
        let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status();
        assert!(mounted.unwrap().success());
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
