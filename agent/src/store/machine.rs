//! Tells a data directory that stayed where it was made from a copy of it.
//!
//! A copy on another machine has another machine id; a copy on the same machine has another inode (a plain move within
//! a file system keeps it). Where the system gives neither, nothing is compared: the swarm still refuses a second
//! connection under one identity. Deliberately absent: device numbers and host names, which change by themselves.

use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// Where a data directory was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineMark {
    /// A hash of the machine's id, from which the id cannot be had back.
    pub machine: Option<String>,
    /// The directory's inode.
    pub directory: Option<u64>,
}

impl MachineMark {
    /// The mark of `directory` on this machine.
    pub fn of(directory: &Path) -> Self {
        Self { machine: machine_id().map(|id| hash(&id)), directory: inode(directory) }
    }

    /// What differs between this mark, made now, and the one on record; none where nothing does.
    pub fn difference(&self, recorded: &Self) -> Option<&'static str> {
        let differ = |a: Option<&str>, b: Option<&str>| a.zip(b).is_some_and(|(a, b)| a != b);
        if differ(self.machine.as_deref(), recorded.machine.as_deref()) {
            return Some("it was made on another machine");
        }
        let moved = self.directory.zip(recorded.directory).is_some_and(|(a, b)| a != b);
        moved.then_some("it is a copy of the directory in which it was made")
    }
}

fn hash(id: &str) -> String {
    let hash = blake3::derive_key("idlewild 2025 machine mark v1", id.trim().as_bytes());
    HEXLOWER.encode(&hash[..16])
}

/// The id that the system made for this installation.
#[cfg(target_os = "linux")]
fn machine_id() -> Option<String> {
    let read = |path| std::fs::read_to_string(path).ok().filter(|text| text.trim().len() >= 16);
    read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"))
}

#[cfg(not(target_os = "linux"))]
fn machine_id() -> Option<String> {
    None
}

#[cfg(unix)]
fn inode(directory: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(directory).ok().map(|about| about.ino())
}

#[cfg(not(unix))]
fn inode(_directory: &Path) -> Option<u64> {
    None
}

/// Names this start of the machine, where the system does: tells a crashed agent from a machine that went down.
pub fn machine_boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_or_another_directory_is_a_difference_and_the_unknown_is_not() {
        let mark = |machine: Option<&str>, directory| MachineMark { machine: machine.map(str::to_owned), directory };
        let cases = [
            (mark(Some("a"), Some(1)), mark(Some("a"), Some(1)), None),
            (mark(Some("b"), Some(1)), mark(Some("a"), Some(1)), Some("another machine")),
            (mark(Some("a"), Some(2)), mark(Some("a"), Some(1)), Some("a copy")),
            (mark(None, None), mark(Some("a"), Some(1)), None),
            (mark(Some("a"), Some(1)), mark(None, None), None),
        ];
        for (now, recorded, expected) in cases {
            let difference = now.difference(&recorded);
            assert_eq!(difference.is_some(), expected.is_some(), "{now:?} {recorded:?}");
            assert!(difference.is_none_or(|text| text.contains(expected.unwrap())));
        }
    }

    #[test]
    fn a_mark_does_not_hold_the_machine_id_itself() {
        assert_ne!(hash("0123456789abcdef"), "0123456789abcdef");
        assert_eq!(hash("0123456789abcdef\n"), hash("0123456789abcdef"));
    }
}
