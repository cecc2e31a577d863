//! Agents as processes: started in the background, waited for, stopped.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Exit;
use super::client::Client;
use super::failure::{Failure, OrExit};
use crate::api::wire::{StatusReply, StopReply};
use crate::config::Paths;
use crate::store::DataLock;

/// An agent's API is up within 5 s; a machine that is busy with other things gets more.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// An agent says goodbye and stops within seconds; after this it is made to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the outcome of a start or a stop is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The end of a log that is shown when an agent did not start.
const LOG_TAIL_BYTES: u64 = 2000;

/// Starts `idlewild` with these arguments (an `up` for these directories) in the background, in a process group of its own (so that Ctrl-C here is
/// not Ctrl-C there), with its output in the log file.
pub(super) fn spawn<A: AsRef<OsStr>>(paths: &Paths, arguments: &[A]) -> Result<Child, Failure> {
    let log = OpenOptions::new().create(true).append(true).open(paths.log_file()).or_exit(Exit::State)?;
    let program = std::env::current_exe().or_exit(Exit::Failed)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().or_exit(Exit::State)?).stderr(log);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().or_exit(Exit::Failed)
}

/// Waits until the agent answers. If its process ends first, its own last words are the reason.
pub(super) async fn wait_until_up(child: &mut Child, paths: &Paths) -> Result<StatusReply, Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().or_exit(Exit::Failed)? {
            let words = log_tail(paths);
            return Err(Failure::words(Exit::Failed, format!("the agent did not start ({status})\n{words}"))
                .hint(format!("its log is {}", paths.log_file().display())));
        }
        if let Some(status) = answer(paths).await {
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

/// Stops the agent of these directories and waits until its directory is free. Gives whether one ran.
pub(super) async fn stop(paths: &Paths) -> Result<bool, Failure> {
    if !DataLock::is_held(paths) {
        return Ok(false);
    }
    let asked = match Client::new(paths) {
        Ok(client) => client.post::<StopReply>("/idlewild/v1/stop", &serde_json::json!({})).await.is_ok(),
        Err(_) => false,
    };
    if !asked {
        signal(paths, Signal::Terminate);
    }
    if is_free_within(paths, STOP_TIMEOUT).await {
        return Ok(true);
    }
    signal(paths, Signal::Kill);
    if is_free_within(paths, STOP_TIMEOUT).await {
        return Ok(true);
    }
    Err(Failure::words(Exit::Failed, "the agent does not stop").hint("it may wait for a disk; look at its process"))
}

async fn is_free_within(paths: &Paths, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    while DataLock::is_held(paths) {
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

/// Signals whoever holds the data directory: it wrote its pid into the lock that it still holds.
#[cfg(unix)]
fn signal(paths: &Paths, signal: Signal) {
    let pid = DataLock::holder(paths).and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
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
fn signal(_paths: &Paths, _signal: Signal) {}

fn log_tail(paths: &Paths) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(paths.log_file())?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    read().unwrap_or_default()
}
