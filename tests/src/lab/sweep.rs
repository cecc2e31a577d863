//! Removes what test processes left that were killed before they could clean up.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::process::{Pid, Signal, kill_process};

use super::command::run;
use super::disk::unmount;
use super::namespace::{NAMED, PREFIX, remove};

/// What the name of a lab's directory begins with, followed by the process that made it.
pub(super) const FILES_PREFIX: &str = "idlewild-lab-";

/// Sweeps once a process.
pub(super) fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(sweep);
}

/// Namespaces of ours whose maker is dead are removed, and the processes in them killed: nobody else can have put any there.
pub fn sweep() {
    let Ok(entries) = fs::read_dir(NAMED) else { return };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    for name in names.filter(|name| maker(name).is_some_and(|pid| !is_alive(pid))) {
        kill_inhabitants(&name);
        remove(&name);
    }
    sweep_files();
}

/// Directories of labs whose maker is dead are removed, after what is mounted in them.
fn sweep_files() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let maker = name.strip_prefix(FILES_PREFIX).and_then(|rest| rest.split_once('-')?.0.parse().ok());
        if maker.is_some_and(|pid: u32| !is_alive(pid)) {
            for mount in mounts_below(&entry.path()) {
                unmount(&mount);
            }
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let paths = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    paths.filter(|path| path.starts_with(directory)).collect()
}

/// The process that made a namespace, from the name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn kill_inhabitants(name: &str) {
    let pids = run("ip", &format!("netns pids {name}")).unwrap_or_default();
    for pid in pids.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::maker;

    #[test]
    fn only_names_of_ours_name_a_maker() {
        for (name, expected) in [
            ("iw4711-0-a", Some(4711)),
            ("iw4711-try", Some(4711)),
            ("iw-a", None),
            ("docker1-a", None),
            ("iwx1-a", None),
        ] {
            assert_eq!(maker(name), expected, "{name}");
        }
    }
}
