//! A network namespace: made, entered, run in, and removed.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::command::run;

/// What the name of every namespace of ours begins with, followed by the process that made it.
pub(super) const PREFIX: &str = "iw";

/// Where `ip netns` keeps the namespaces that have a name.
pub(super) const NAMED: &str = "/run/netns";

/// A network namespace. It is removed with the last clone.
#[derive(Clone)]
pub(crate) struct Namespace(Arc<Named>);

struct Named {
    name: String,
    /// Keeps it enterable, whatever happens to the name.
    handle: File,
}

impl Namespace {
    /// Makes one, with loopback up.
    pub(super) fn create(name: String) -> Result<Self> {
        run("ip", &format!("netns add {name}"))?;
        let made = File::open(format!("{NAMED}/{name}"));
        let handle = made.inspect_err(|_| remove(&name)).with_context(|| format!("open namespace {name}"))?;
        let namespace = Self(Arc::new(Named { name, handle }));
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Runs `ip` on it, from outside.
    pub(crate) fn ip(&self, words: &str) -> Result<String> {
        run("ip", &format!("-n {} {words}", self.0.name))
    }

    /// Runs `tc` on it, from outside.
    pub(super) fn tc(&self, words: &str) -> Result<String> {
        run("tc", &format!("-n {} {words}", self.0.name))
    }

    /// A command that runs inside; the process id is the program's own.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0.name]).arg(program);
        command
    }

    /// Runs `work` inside, on a thread of its own. What it opens (sockets, threads) stays inside for good.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.0.handle.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("enter namespace {}", self.0.name))?;
                Ok(work())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes a namespace by name. A failure is left for the next sweep.
pub(super) fn remove(name: &str) {
    let _ = run("ip", &format!("netns del {name}"));
}
