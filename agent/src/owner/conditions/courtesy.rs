//! Of which programs the kernel puts the engine last: that depends on how it groups tasks.
//!
//! The engine's tasks are of the idle class, which counts among the tasks of one group. Groups share the processor by their
//! weights, whatever is in them: control groups where somebody has made some with a processor controller, else the sessions
//! of programs (autogroups), of which the engine's own is at nice 19.

use std::path::Path;

use super::roots::{Roots, number, text};

/// How the kernel shares the processor between the engine and others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Courtesy {
    /// There are no groups: the engine comes after every other program.
    Last,
    /// Each session is a group, and the engine's has the least weight.
    BySession,
    /// The outermost group of ours with a weight of its own is idle: the engine comes after every program outside it.
    IdleGroup(String),
    /// Inside the first group the engine comes last; with programs outside it that group shares by weight.
    ByWeight {
        /// The outermost control group of ours that has a weight.
        group: String,
        /// Its weight, in the kernel's unit (100 is usual; 1024 in version 1).
        weight: u64,
    },
}

/// Looks, for this process and those that it starts.
pub fn courtesy(roots: &Roots) -> Courtesy {
    let lines = text(&roots.proc("self/cgroup")).unwrap_or_default();
    let outermost = lines.lines().find_map(|line| outermost(roots, line));
    let sessions = || number::<u8>(&roots.proc("sys/kernel/sched_autogroup_enabled")) == Some(1);
    match outermost {
        Some(Group { name, is_idle: true, .. }) => Courtesy::IdleGroup(name),
        Some(Group { name, weight, is_idle: false }) => Courtesy::ByWeight { group: name, weight },
        None if sessions() => Courtesy::BySession,
        None => Courtesy::Last,
    }
}

struct Group {
    name: String,
    weight: u64,
    is_idle: bool,
}

/// The outermost group with a weight that a line of /proc/self/cgroup names: `0::/a/b`, or `3:cpu,cpuacct:/a/b`.
fn outermost(roots: &Roots, line: &str) -> Option<Group> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_matches('/'));
    let (mount, weight_file) = match controllers {
        "" => ("fs/cgroup", "cpu.weight"),
        _ if controllers.split(',').any(|name| name == "cpu") => ("fs/cgroup/cpu", "cpu.shares"),
        _ => return None,
    };
    let mount = roots.sys(mount);
    // The root of all has no weight that counts; that of a container's namespace may have one, and is called so too.
    let is_counted = |path: &&Path| !path.as_os_str().is_empty() || controllers.is_empty();
    let groups: Vec<&Path> = Path::new(path).ancestors().filter(is_counted).collect();
    groups.into_iter().rev().find_map(|path| {
        let directory = mount.join(path);
        let weight = number(&directory.join(weight_file))?;
        let is_idle = number::<u8>(&directory.join("cpu.idle")) == Some(1);
        Some(Group { name: format!("/{}", path.display()), weight, is_idle })
    })
}

#[cfg(test)]
mod tests {
    use super::super::roots::tree;
    use super::*;

    fn check(files: &[(&str, &str)], expected: &Courtesy) {
        let (_dir, roots) = tree(files);
        assert_eq!(&courtesy(&roots), expected, "{files:?}");
    }

    #[test]
    fn the_outermost_group_with_a_weight_says_of_whom_the_engine_is_last() {
        let sessions = ("proc/sys/kernel/sched_autogroup_enabled", "1\n");
        let own = ("proc/self/cgroup", "0::/user.slice/app.slice/idlewild.service\n");
        check(&[own], &Courtesy::Last);
        check(&[own, sessions], &Courtesy::BySession);
        check(&[own, ("proc/sys/kernel/sched_autogroup_enabled", "0\n")], &Courtesy::Last);
        let outer = ("sys/fs/cgroup/user.slice/cpu.weight", "100\n");
        let inner = ("sys/fs/cgroup/user.slice/app.slice/cpu.weight", "20\n");
        let by = |group: &str, weight| Courtesy::ByWeight { group: group.to_owned(), weight };
        check(&[own, sessions, inner], &by("/user.slice/app.slice", 20));
        check(&[own, outer, inner], &by("/user.slice", 100));
        let idle = ("sys/fs/cgroup/user.slice/app.slice/cpu.idle", "1\n");
        check(&[own, inner, idle], &Courtesy::IdleGroup("/user.slice/app.slice".to_owned()));
        // An idle group in one that is not is last among its neighbours only.
        check(&[own, outer, inner, idle], &by("/user.slice", 100));
    }

    #[test]
    fn groups_of_version_1_and_of_containers_count_too() {
        let sessions = ("proc/sys/kernel/sched_autogroup_enabled", "1\n");
        let root = ("sys/fs/cgroup/cpu/cpu.shares", "1024\n");
        check(&[("proc/self/cgroup", "1:cpu:/\n0::/\n"), root, sessions], &Courtesy::BySession);
        let own = ("proc/self/cgroup", "2:cpu,cpuacct:/x\n0::/\n");
        let shares = ("sys/fs/cgroup/cpu/x/cpu.shares", "512\n");
        check(&[own, root, shares], &Courtesy::ByWeight { group: "/x".to_owned(), weight: 512 });
        let container = [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.weight", "100\n")];
        check(&container, &Courtesy::ByWeight { group: "/".to_owned(), weight: 100 });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_says_something() {
        // Whatever it is: no file that is missing or strange is an error.
        let said = courtesy(&Roots::under(Path::new("/")));
        assert!(!matches!(&said, Courtesy::ByWeight { weight: 0, .. }), "{said:?}");
    }
}
