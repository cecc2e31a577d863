//! An X server whose screen nobody sees (Xvfb), with synthetic input (xdotool).

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::part::Part;

/// An X server.
pub struct Screen {
    server: Part,
    /// Waits for commands, so that input does not wait for a program to start.
    hand: Part,
    display: String,
    moves: u32,
}

impl Screen {
    /// Starts one, at a display number that is free.
    pub fn start() -> Result<Self> {
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-noreset", "-nolisten", "tcp", "-screen", "0", "640x480x24"]);
        let mut server = Part::start(&mut command)?;
        let mut number = String::new();
        let output = server.0.stdout.take().context("no output")?;
        BufReader::new(output).read_line(&mut number).context("read the display's number")?;
        ensure!(!number.trim().is_empty(), "Xvfb did not start");
        let display = format!(":{}", number.trim());
        let hand = Part::start(Command::new("xdotool").arg("-").env("DISPLAY", &display))?;
        Ok(Self { server, hand, display, moves: 0 })
    }

    /// Its name, for `DISPLAY`.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// Moves the pointer; says when that was begun.
    pub fn input(&mut self) -> Result<Instant> {
        self.moves += 1;
        let input = self.hand.0.stdin.as_mut().context("no input")?;
        let began = Instant::now();
        writeln!(input, "mousemove {} {}", 10 + self.moves % 400, 10 + self.moves % 300).context("move the pointer")?;
        input.flush().context("move the pointer")?;
        Ok(began)
    }

    /// Stops the server where it is: it accepts and does not answer.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.server.0.id()).ok().and_then(Pid::from_raw).context("not a process id")?;
        kill_process(pid, signal).context("signal the X server")
    }
}
