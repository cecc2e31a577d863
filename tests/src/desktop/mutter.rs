//! GNOME's compositor without a screen, with its idle monitor on a session bus.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Bus;
use super::part::Part;
use crate::{Lab, eventually};

/// It loads a good deal at its start.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// A running mutter.
pub struct Mutter {
    _compositor: Part,
    bus: String,
}

impl Mutter {
    /// Starts it on a bus.
    pub fn start(lab: &Lab, bus: &Bus) -> Result<Self> {
        let runtime = lab.directory("mutter")?;
        let mut command = Command::new("mutter");
        command.args(["--headless", "--virtual-monitor", "800x600", "--wayland", "--no-x11"]);
        command.env("XDG_RUNTIME_DIR", runtime).env("HOME", lab.directory("mutter-home")?);
        // Lets D-Bus stand for input.
        command.env("MUTTER_DEBUG_RESET_IDLETIME", "1").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        for variable in ["DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"] {
            command.env(variable, bus.address());
        }
        let compositor = Part::start(&mut command)?;
        let mutter = Self { _compositor: compositor, bus: bus.address() };
        eventually(UP_WITHIN, "mutter's idle monitor", || Ok(mutter.call("GetIdletime").is_ok()))?;
        Ok(mutter)
    }

    /// Input, as far as its idle monitor can tell.
    pub fn input(&self) -> Result<()> {
        self.call("ResetIdletime")
    }

    fn call(&self, method: &str) -> Result<()> {
        let mut command = Command::new("dbus-send");
        command.args([&format!("--bus={}", self.bus), "--print-reply", "--dest=org.gnome.Mutter.IdleMonitor"]);
        command.arg("/org/gnome/Mutter/IdleMonitor/Core").arg(format!("org.gnome.Mutter.IdleMonitor.{method}"));
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("run dbus-send")?;
        ensure!(status.success(), "mutter does not answer to {method}");
        Ok(())
    }
}
