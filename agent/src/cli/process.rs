//! Agents as processes: started in the background, waited for, stopped.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Exit;
use super::client::Client;
use super::failure::{Failure, OrExit};
use crate::api::wire::{StatusReply, StopReply};
use crate::config::Paths;
use crate::store::{DataLock, read_running};

/// An agent's API is up within 5 s; a machine that is busy with other things gets more.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// An agent says goodbye and stops within seconds; after this it is made to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the outcome of a start or a stop is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The end of a log that is shown when an agent did not start.
const LOG_TAIL_BYTES: u64 = 2000;

/// A log that is longer at the start is put aside: months of a quiet agent's lines.
const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// An agent that was started in the background.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    /// Bytes of the log that were there before: what earlier agents said.
    log_before: u64,
}

/// How an agent was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// None ran.
    NoneRan,
    /// It said goodbye and ended.
    Ended,
    /// It did not answer and was killed.
    Killed,
}

/// Starts `idlewild` with these arguments (an `up` for these directories) in the background, in a process group of its own
/// (so that Ctrl-C here is not Ctrl-C there), with its output in the log file.
pub(super) fn spawn<A: AsRef<OsStr>>(paths: &Paths, arguments: &[A]) -> Result<Started, Failure> {
    if DataLock::is_held(paths) {
        let who = DataLock::holder(paths).map_or(String::new(), |pid| format!(" (pid {pid})"));
        return Err(Failure::words(Exit::State, format!("an agent runs already{who}"))
            .hint("`idlewild status` shows what it does; `idlewild down` stops it"));
    }
    set_aside(&paths.log_file()).or_exit(Exit::State)?;
    let log = OpenOptions::new().create(true).append(true).open(paths.log_file()).or_exit(Exit::State)?;
    let log_before = log.metadata().or_exit(Exit::State)?.len();
    let program = std::env::current_exe().or_exit(Exit::Failed)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().or_exit(Exit::State)?).stderr(log);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn().or_exit(Exit::Failed)?;
    Ok(Started { child, log_before })
}

/// Begins a new log where the old one has become long; the last old one is kept.
fn set_aside(log: &Path) -> std::io::Result<()> {
    match std::fs::metadata(log) {
        Ok(about) if about.len() > LOG_BYTES_MAX => std::fs::rename(log, log.with_extension("log.1")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until this agent answers, and no other of the same directories, and `is_up`. If its process ends first, it ends this one with
/// its own code, and its own last words are the reason.
pub(super) async fn wait_until_up(
    started: &mut Started,
    paths: &Paths,
    is_up: impl Fn(&StatusReply) -> bool,
) -> Result<StatusReply, Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(status) = started.child.try_wait().or_exit(Exit::Failed)? {
            return Err(did_not_start(status, &last_words(paths, started.log_before), paths));
        }
        let is_ours = read_running(paths).ok().flatten().is_some_and(|running| running.pid == started.child.id());
        if is_ours && let Some(status) = answer(paths).await.filter(&is_up) {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(Failure::words(Exit::Failed, "the agent runs and does not answer")
                .hint(format!("its log is {}", paths.log_file().display())));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The status of the agent of these directories, if one answers.
pub(super) async fn answer(paths: &Paths) -> Option<StatusReply> {
    Client::new(paths).ok()?.get("/idlewild/v1/status").await.ok()
}

fn did_not_start(status: ExitStatus, words: &str, paths: &Paths) -> Failure {
    let exit = status.code().and_then(|code| Exit::of_code(u8::try_from(code).ok()?)).unwrap_or(Exit::Failed);
    let why = if words.is_empty() { format!(" ({status})") } else { format!(":\n{words}") };
    Failure::words(exit, format!("the agent did not start{why}"))
        .hint(format!("its log is {}", paths.log_file().display()))
}

/// Stops the agent of these directories and waits until it no longer holds them. One that is started meanwhile is left
/// alone.
pub(super) async fn stop(paths: &Paths) -> Result<Stopped, Failure> {
    if !DataLock::is_held(paths) {
        return Ok(Stopped::NoneRan);
    }
    let holder = DataLock::holder(paths);
    let asked = match Client::new(paths) {
        Ok(client) => client.post::<StopReply>("/idlewild/v1/stop", &serde_json::json!({})).await.is_ok(),
        Err(_) => false,
    };
    if !asked {
        signal(paths, holder, Signal::Terminate);
    }
    if lets_go_within(paths, holder, STOP_TIMEOUT).await {
        return Ok(Stopped::Ended);
    }
    signal(paths, holder, Signal::Kill);
    if lets_go_within(paths, holder, STOP_TIMEOUT).await {
        return Ok(Stopped::Killed);
    }
    Err(Failure::words(Exit::Failed, "the agent does not stop").hint("it may wait for a disk; look at its process"))
}

async fn lets_go_within(paths: &Paths, holder: Option<u32>, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    while DataLock::is_held(paths) && DataLock::holder(paths) == holder {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    true
}

#[derive(Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

/// Signals `holder` if it still holds the data directory: it wrote its pid into the lock.
#[cfg(unix)]
fn signal(paths: &Paths, holder: Option<u32>, signal: Signal) {
    let holding = holder.filter(|_| DataLock::holder(paths) == holder);
    let pid = holding.and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let signal = match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    if let Some(pid) = pid {
        // It may have ended since; then there is nothing left to do.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(not(unix))]
fn signal(_paths: &Paths, _holder: Option<u32>, _signal: Signal) {}

/// What was logged after the first `before` bytes: from the error on, or all of it where there is none.
fn last_words(paths: &Paths, before: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(paths.log_file())?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(before.max(length.saturating_sub(LOG_TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let words = read().unwrap_or_default();
    let is_error = |line: &&str| line.starts_with("error: ");
    let from = words.lines().position(|line| is_error(&line)).unwrap_or_default();
    words.lines().skip(from).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_put_aside_and_a_short_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let (log, old) = (dir.path().join("agent.log"), dir.path().join("agent.log.1"));
        set_aside(&log).unwrap();
        File::create(&log).unwrap().set_len(LOG_BYTES_MAX).unwrap();
        set_aside(&log).unwrap();
        assert!(log.exists() && !old.exists());
        for _ in 0..2 {
            File::create(&log).unwrap().set_len(LOG_BYTES_MAX + 1).unwrap();
            set_aside(&log).unwrap();
            assert!(!log.exists() && old.exists());
        }
    }
}
