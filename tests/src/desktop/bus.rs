//! A message bus of one's own, for the system's or the session's.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::part::Part;
use crate::{Lab, eventually};

const UP_WITHIN: Duration = Duration::from_secs(10);

/// Everybody may do everything, at the address that is put in.
const RULES: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>ADDRESS</listen>
  <policy context="default">
    <allow user="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// A bus.
pub struct Bus {
    _daemon: Part,
    socket: PathBuf,
}

impl Bus {
    /// Starts one; `name` tells it from others of the lab.
    pub fn start(lab: &Lab, name: &str) -> Result<Self> {
        let folder = lab.directory(&format!("bus-{name}"))?;
        let (rules, socket) = (folder.join("rules.conf"), folder.join("socket"));
        let text = RULES.replace("ADDRESS", &format!("unix:path={}", socket.display()));
        std::fs::write(&rules, text).context("write the bus's rules")?;
        let mut command = Command::new("dbus-daemon");
        command.args(["--nofork", "--nopidfile"]).arg(format!("--config-file={}", rules.display()));
        let daemon = Part::start(&mut command)?;
        eventually(UP_WITHIN, "a message bus", || Ok(socket.exists()))?;
        Ok(Self { _daemon: daemon, socket })
    }

    /// Its address, as the variables take it.
    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket.display())
    }
}
