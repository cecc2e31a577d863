//! A scripted logind or session manager on a bus: `clients/desktop.py`.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Command};

use anyhow::{Context, Result, ensure};

use super::Bus;
use super::part::Part;

/// What plays the part. Dropping it takes its name off the bus.
pub struct Script {
    player: Part,
    answers: BufReader<ChildStdout>,
}

impl Script {
    /// Plays logind.
    pub fn logind(bus: &Bus) -> Result<Self> {
        Self::play("logind", bus)
    }

    /// Plays GNOME's session manager.
    pub fn gnome(bus: &Bus) -> Result<Self> {
        Self::play("gnome", bus)
    }

    fn play(part: &str, bus: &Bus) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/desktop.py");
        // Debian's own: python3-dbusmock is its package.
        let mut command = Command::new("/usr/bin/python3");
        for variable in ["DBUS_SYSTEM_BUS_ADDRESS", "DBUS_SESSION_BUS_ADDRESS"] {
            command.env(variable, bus.address());
        }
        let mut player = Part::start(command.args([script, part]))?;
        let answers = BufReader::new(player.0.stdout.take().context("no output")?);
        let mut script = Self { player, answers };
        script.hear().with_context(|| format!("{part} did not start: is python3-dbusmock installed?"))?;
        Ok(script)
    }

    /// Has it obey a command (see the script), and returns once it has.
    pub fn say(&mut self, command: &str) -> Result<()> {
        let input = self.player.0.stdin.as_mut().context("no input")?;
        writeln!(input, "{command}").context("write a command")?;
        self.hear().with_context(|| format!("command {command:?}"))
    }

    fn hear(&mut self) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read an answer")?;
        ensure!(line.trim() == "ok", "it says {:?}", line.trim());
        Ok(())
    }
}
