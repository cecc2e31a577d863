//! A system bus of a test's own, and a logind on it that does what the test says.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{Lab, within};

/// A bus and a logind are there by then, on a busy machine too.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Runs a bus until its standard input is closed: it ends with the test, however that ends.
const DAEMON: &str = r#"dbus-daemon --session --nofork --nopidfile --address="$0" & read -r _; kill $!"#;

/// Debian's own Python has the bindings.
const PYTHON: &str = "/usr/bin/python3";

/// A bus. Dropping it ends it.
pub struct Bus {
    address: String,
    child: Child,
}

impl Bus {
    /// Starts one in the lab's directory.
    pub fn start(lab: &Lab) -> Result<Self> {
        let socket = lab.files().join("bus");
        let address = format!("unix:path={}", socket.display());
        let mut command = Command::new("sh");
        command.args(["-c", DAEMON, &address]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("start a bus")?;
        let bus = Self { address, child };
        within(READY_WITHIN, "a bus", || Ok(socket.exists().then_some(()))).context("is dbus-daemon installed?")?;
        Ok(bus)
    }

    /// Its address, as D-Bus writes it.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a logind has said, with the time of each line.
type Said = Arc<Mutex<Vec<(Instant, String)>>>;

/// A scripted logind. Dropping it takes it off the bus.
pub struct Logind {
    child: Child,
    commands: Option<ChildStdin>,
    said: Said,
}

impl Logind {
    /// Starts one on a bus; returns once it is there.
    pub fn start(bus: &Bus) -> Result<Self> {
        let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/logind.py");
        let mut command = Command::new(PYTHON);
        command.arg(script).env("DBUS_SYSTEM_BUS_ADDRESS", bus.address());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start a logind")?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let said = Said::default();
        let kept = Arc::clone(&said);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
            }
        });
        let commands = child.stdin.take();
        let logind = Self { child, commands, said };
        logind.wait_for(0, "ready", READY_WITHIN).context("are python3-dbus and python3-gi installed?")?;
        Ok(logind)
    }

    /// Has it say that the machine sleeps, wakes, shuts down or stays (`sleep`, `wake`, `shutdown`, `stay`). Gives the place
    /// in what it says from which on that is an answer.
    pub fn tell(&mut self, word: &str) -> Result<usize> {
        let from = self.lines().len();
        let commands = self.commands.as_mut().context("it was dropped")?;
        writeln!(commands, "{word}").context("tell logind")?;
        Ok(from)
    }

    /// Waits until it has said `line` from place `from` on; gives when.
    pub fn wait_for(&self, from: usize, line: &str, deadline: Duration) -> Result<Instant> {
        let seen = within(deadline, line, || {
            Ok(self.lines().into_iter().skip(from).find(|(_, said)| said == line).map(|(at, _)| at))
        });
        seen.map(|(at, _)| at).with_context(|| format!("logind has said {:?}", self.lines()))
    }

    /// Waits until so many inhibitors of a kind are held.
    pub fn wait_for_inhibitors(&self, what: &str, count: usize) -> Result<()> {
        let number = |word: &str| self.lines().iter().filter(|(_, said)| *said == format!("{word} {what}")).count();
        let held = within(READY_WITHIN, "inhibitors", || {
            Ok((number("inhibited").saturating_sub(number("released")) == count).then_some(()))
        });
        held.map(drop).with_context(|| format!("logind has said {:?}", self.lines()))
    }

    fn lines(&self) -> Vec<(Instant, String)> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes it off the bus, and checks that it has served to its end.
    pub fn vanish(mut self) -> Result<()> {
        drop(self.commands.take());
        let (status, _) = within(READY_WITHIN, "logind's end", || Ok(self.child.try_wait()?))?;
        ensure!(status.success(), "logind failed: {status}");
        Ok(())
    }
}

impl Drop for Logind {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
