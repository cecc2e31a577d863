//! The memory that there is: the machine's, or what the control groups above us allow, if that is less.

use std::path::Path;

use super::processor::tree;
use super::roots::{Roots, number, text};

/// The memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All that we could ever have.
    pub total: u64,
    /// What could be had now without pushing anybody out.
    pub available: u64,
    /// What our own processes hold.
    pub own: u64,
}

impl Memory {
    /// What is in use, by us or by others.
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.available)
    }

    /// `part` of all, in percent.
    pub fn percent(&self, part: u64) -> f32 {
        100.0 * part as f32 / self.total.max(1) as f32
    }
}

/// Reads it, for the tree of processes that begins with `pid`; none where /proc/meminfo cannot be read.
pub fn memory(roots: &Roots, pid: u32) -> Option<Memory> {
    let meminfo = text(&roots.proc("meminfo"))?;
    let machine = (kilobytes(&meminfo, "MemTotal").filter(|total| *total > 0)?, kilobytes(&meminfo, "MemAvailable")?);
    let (total, available) = groups(roots).into_iter().fold(machine, |(total, available), group| {
        (total.min(group.limit), available.min(group.limit.saturating_sub(group.used)))
    });
    let own = tree(roots, pid).iter().map(|pid| held(roots, *pid, "VmRSS")).sum();
    Some(Memory { total, available, own })
}

/// What our children hold for themselves, in bytes: what would be free if they ended. Pages of files are not counted, since
/// those that nobody else needs are free already.
pub fn engine_bytes(roots: &Roots, pid: u32) -> u64 {
    let children = tree(roots, pid).into_iter().filter(|child| *child != pid);
    children.map(|child| held(roots, child, "RssAnon")).sum()
}

/// A figure of /proc/<pid>/status, in bytes; 0 for a process that has gone.
fn held(roots: &Roots, pid: u32, name: &str) -> u64 {
    let status = text(&roots.proc(&format!("{pid}/status"))).unwrap_or_default();
    kilobytes(&status, name).unwrap_or(0)
}

/// A line such as `MemTotal:   8000 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A control group that limits memory.
#[derive(Debug)]
struct Group {
    limit: u64,
    /// Without pages of files that the kernel can drop.
    used: u64,
}

/// The limited groups from ours upwards, of either version.
fn groups(roots: &Roots) -> Vec<Group> {
    let Some(lines) = text(&roots.proc("self/cgroup")) else { return Vec::new() };
    lines.lines().flat_map(|line| of_line(roots, line)).collect()
}

/// `0::/a/b` is version 2, `4:memory:/a/b` version 1.
fn of_line(roots: &Roots, line: &str) -> Vec<Group> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let path = path.trim_matches('/');
    let (mount, files) = match controllers {
        "" => ("fs/cgroup", ["memory.max", "memory.current", "inactive_file "]),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "])
        }
        _ => return Vec::new(),
    };
    let mount = roots.sys(mount);
    // In a container the path may be that of the host, and only its end, or nothing of it, be there.
    let ancestors = Path::new(path).ancestors().map(|path| mount.join(path));
    ancestors.filter_map(|directory| group(&directory, files)).collect()
}

fn group(directory: &Path, [limit, usage, idle]: [&str; 3]) -> Option<Group> {
    // `max` is no number: not limited.
    let limit = number::<u64>(&directory.join(limit))?;
    let usage = number::<u64>(&directory.join(usage))?;
    let stat = text(&directory.join("memory.stat")).unwrap_or_default();
    let idle = stat.lines().find_map(|line| line.strip_prefix(idle)?.trim().parse::<u64>().ok()).unwrap_or(0);
    Some(Group { limit, used: usage.saturating_sub(idle) })
}

#[cfg(test)]
mod tests {
    use super::super::roots::tree as files;
    use super::*;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable:    6000 kB\n");
    const KB: u64 = 1024;

    fn check(more: &[(&str, &str)], total_kb: u64, available_kb: u64) {
        let (_dir, roots) = files(&[&[MEMINFO], more].concat());
        let expected = Memory { total: total_kb * KB, available: available_kb * KB, own: 0 };
        assert_eq!(memory(&roots, 7), Some(expected), "{more:?}");
    }

    #[test]
    fn the_tightest_group_above_us_counts() {
        let own = ("proc/self/cgroup", "0::/user.slice/idlewild.service\n");
        check(&[], 8000, 6000);
        check(&[own], 8000, 6000);
        check(
            &[own, ("sys/fs/cgroup/user.slice/memory.max", "max"), ("sys/fs/cgroup/user.slice/memory.current", "5")],
            8000,
            6000,
        );
        check(
            &[
                own,
                ("sys/fs/cgroup/user.slice/idlewild.service/memory.max", "4096000"),
                ("sys/fs/cgroup/user.slice/idlewild.service/memory.current", "3072000"),
                ("sys/fs/cgroup/user.slice/idlewild.service/memory.stat", "anon 7\ninactive_file 1024000\n"),
            ],
            4000,
            2000,
        );
        // A limit further up is a limit too.
        check(
            &[
                own,
                ("sys/fs/cgroup/user.slice/memory.max", "2048000"),
                ("sys/fs/cgroup/user.slice/memory.current", "1024000"),
            ],
            2000,
            1000,
        );
        // Version 1; and what the container's own namespace hides of the path.
        let old = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
        check(
            &[
                old,
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1024000"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024000"),
            ],
            1000,
            0,
        );
        check(
            &[
                old,
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5"),
            ],
            8000,
            6000,
        );
    }

    #[test]
    fn our_own_part_is_the_whole_tree_s_and_the_engine_s_is_what_it_holds_alone() {
        let (_dir, roots) = files(&[
            MEMINFO,
            ("proc/7/status", "Name:\tidlewild\nVmRSS:\t   40 kB\nRssAnon:\t 10 kB\n"),
            ("proc/7/task/7/children", "12 13\n"),
            ("proc/12/status", "VmRSS:\t  400 kB\nRssAnon:\t 120 kB\n"),
        ]);
        assert_eq!(memory(&roots, 7).unwrap().own, 440 * KB);
        assert_eq!(engine_bytes(&roots, 7), 120 * KB);
        assert_eq!(memory(&files(&[]).1, 7), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_can_be_read() {
        let roots = Roots::under(Path::new("/"));
        let memory = memory(&roots, std::process::id()).unwrap();
        assert!(memory.total > memory.own && memory.own > 0 && memory.total >= memory.available, "{memory:?}");
    }
}
