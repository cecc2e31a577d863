//! What other programs use of the processor: all that is busy, less our own process tree.
//!
//! Pressure (PSI) and load count our own threads too; so it is counted in ticks, as BOINC does.

use std::collections::VecDeque;

use super::roots::{Roots, entries, text};

/// Looks that are kept: with one each 6 s the average is over the last 12 s.
const LOOKS: usize = 2;

/// Ticks (hundredths of a second) since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    /// Of all cores, idle ones too.
    all: u64,
    busy: u64,
    /// Of this process and those that it started, the dead ones too.
    own: u64,
}

/// Remembers a few looks.
#[derive(Debug)]
pub(super) struct Processor {
    pid: u32,
    looks: VecDeque<Ticks>,
}

impl Processor {
    /// Of which `pid` is our own process.
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, looks: VecDeque::with_capacity(LOOKS) }
    }

    /// The share of all cores that others used, in percent, averaged over the last looks; none at the first one.
    pub(super) fn look(&mut self, roots: &Roots) -> Option<f32> {
        let now = ticks(roots, self.pid)?;
        let share = self.looks.front().and_then(|then| share(*then, now));
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(now);
        share
    }
}

fn share(then: Ticks, now: Ticks) -> Option<f32> {
    let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
    let others = now.busy.saturating_sub(then.busy).saturating_sub(now.own.saturating_sub(then.own));
    Some(100.0 * others.min(all) as f32 / all as f32)
}

fn ticks(roots: &Roots, pid: u32) -> Option<Ticks> {
    let stat = text(&roots.proc("stat"))?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests used is in user already.
    let fields: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
    let all: u64 = fields.iter().sum();
    // What the hypervisor took is nobody's program here.
    let idle: u64 = [3, 4, 7].iter().filter_map(|at| fields.get(*at)).sum();
    let own = tree(roots, pid).iter().filter_map(|pid| own_ticks(roots, *pid)).sum();
    (fields.len() >= 4).then_some(Ticks { all, busy: all - idle, own })
}

/// This process and its children. The engine, which computes, is one of them and has none of its own.
pub(super) fn tree(roots: &Roots, pid: u32) -> Vec<u32> {
    let lists =
        entries(&roots.proc(&format!("{pid}/task"))).into_iter().filter_map(|task| text(&task.join("children")));
    let children =
        lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>());
    std::iter::once(pid).chain(children).collect()
}

/// Ticks of one process and of its children that have ended.
fn own_ticks(roots: &Roots, pid: u32) -> Option<u64> {
    let stat = text(&roots.proc(&format!("{pid}/stat")))?;
    // The name may hold blanks and brackets.
    let (_, rest) = stat.rsplit_once(") ")?;
    // Fields 14 to 17 of proc(5): utime, stime, cutime, cstime; counted here from the third.
    Some(rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::super::roots::tree as files;
    use super::*;

    fn of_process(name: &str, utime: u64, of_dead_children: u64) -> String {
        format!("7 ({name}) S 1 7 7 0 -1 4194560 1 0 0 0 {utime} 0 {of_dead_children} 0 20 0 3 0 55 1 1\n")
    }

    #[test]
    fn others_are_all_that_is_busy_less_our_own_tree() {
        let agent = of_process("idle) S wild", 100, 0);
        let (dir, roots) = files(&[
            ("proc/stat", "cpu  1000 0 0 1000 0 0 0 0 0 0\ncpu0 1 1 1 1\n"),
            ("proc/7/stat", &agent),
            ("proc/7/task/7/children", ""),
            ("proc/7/task/9/children", "12 "),
            ("proc/12/stat", &of_process("engine", 500, 0)),
        ]);
        let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
        let mut processor = Processor::new(7);
        assert_eq!(processor.look(&roots), None, "one look says nothing");
        // Of 400 ticks the engine took 200, others 60, the host of this guest 40; 100 were idle.
        write("proc/stat", "cpu  1200 30 30 1090 10 0 0 40 0 0\n");
        write("proc/12/stat", &of_process("engine", 700, 0));
        assert_eq!(processor.look(&roots), Some(15.0));
        // The engine ends: what it used is its parent's from now on.
        write("proc/stat", "cpu  1200 30 30 1490 10 0 0 40 0 0\n");
        write("proc/7/stat", &of_process("idlewild", 100, 700));
        write("proc/7/task/9/children", "");
        assert_eq!(processor.look(&roots), Some(7.5), "an average over both");
        // Only the last looks count.
        for _ in 0..3 {
            processor.look(&roots);
        }
        write("proc/stat", "cpu  1200 30 30 1590 10 0 0 40 0 0\n");
        assert_eq!(processor.look(&roots), Some(0.0));
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        for stat in ["", "cpu  1 2\n", "intr 5\n"] {
            let (_dir, roots) = files(&[("proc/stat", stat)]);
            let mut processor = Processor::new(7);
            assert_eq!((processor.look(&roots), processor.look(&roots)), (None, None), "{stat:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_can_be_read() {
        let roots = Roots::under(std::path::Path::new("/"));
        let ticks = ticks(&roots, std::process::id()).unwrap();
        assert!(ticks.all > ticks.busy && ticks.busy >= ticks.own, "{ticks:?}");
    }
}
