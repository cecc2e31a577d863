//! Processes: their children, their time, their memory, and signals to them. Linux's /proc is the source.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// /proc counts processor time in hundredths of a second, whatever the kernel's own clock.
const MS_PER_TICK: u64 = 10;

/// Sends a signal to one process.
pub(super) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("not a process id")?;
    kill_process(pid, signal).with_context(|| format!("send {signal:?} to process {pid:?}"))
}

/// The processes that `parent` started and that live.
pub fn children(parent: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Whether a process runs: it exists and is not a zombie.
pub(super) fn is_running(pid: u32) -> bool {
    stat(pid).is_ok_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// Processor time that a process has used, its dead children not included.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let fields = stat(pid)?;
    // Fields 14 and 15 of proc(5), counted here from the third (the state).
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * MS_PER_TICK))
}

/// Processor time that the first thread of a process has used, to a tick of the kernel's while it runs, and exactly while
/// it does not.
pub(crate) fn run_time(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).with_context(|| format!("no process {pid}"))?;
    let ns = text.split_whitespace().next().context("an empty schedstat")?;
    Ok(Duration::from_nanos(ns.parse().context("read the time on the processor")?))
}

/// Memory that a process holds, in bytes.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("read of process {pid}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no resident size")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("read the resident size")?;
    Ok(kib * 1024)
}

/// The fields of /proc/<pid>/stat from the state on: what is before may hold blanks.
fn stat(pid: u32) -> Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("no process {pid}"))?;
    let (_, rest) = text.rsplit_once(") ").context("read the process's state")?;
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}
