//! Where other accounts of the machine come in: the program and the agent's socket where all may use them, and lookouts that
//! run as those accounts.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::Bus;
use crate::agent::program;
use crate::{Lab, within};

/// A folder that all accounts may enter.
pub struct Porch {
    folder: PathBuf,
}

impl Porch {
    /// Makes it.
    pub fn open(lab: &Lab) -> Result<Self> {
        // Entered, not listed: what is private in there has its own permissions.
        fs::set_permissions(lab.files(), Permissions::from_mode(0o711)).context("let others in")?;
        let folder = lab.directory("porch")?;
        fs::copy(program()?, folder.join("idlewild")).context("copy the program")?;
        Ok(Self { folder })
    }

    /// The agent's socket, for `owner.lookout_socket`.
    pub fn socket(&self) -> String {
        self.folder.join("lookouts.sock").display().to_string()
    }

    /// Starts a lookout as an account, in a session with a screen at `display`.
    pub fn lookout(&self, uid: u32, bus: &Bus, display: &str) -> Result<Lookout> {
        let words = self.folder.join(format!("lookout-{uid}.log"));
        let id = uid.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(self.folder.join("idlewild"));
        command.args(["lookout", "--socket", &self.socket()]).env_clear();
        command.env("DBUS_SYSTEM_BUS_ADDRESS", bus.address()).env("DISPLAY", display).env("HOME", "/nonexistent");
        let log = File::create(&words).context("make a log")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Lookout { child: command.spawn().context("start a lookout")?, words })
    }
}

/// A lookout. Dropping it kills it.
pub struct Lookout {
    child: Child,
    words: PathBuf,
}

impl Lookout {
    /// What it has said.
    pub fn words(&self) -> Result<String> {
        fs::read_to_string(&self.words).context("read what a lookout says")
    }

    /// Stops it where it is, or lets it go on.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("not a process id")?;
        kill_process(pid, signal).context("signal a lookout")
    }

    /// Waits for its end.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let ended = within(deadline, "the lookout's end", || Ok(self.child.try_wait()?));
        ended.map(|(status, _)| status)
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        // One that has ended needs no more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
