//! How an agent is started: on which host, with which settings, from which home.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::Agent;
use super::cluster::program;
use crate::{Host, Lab};

/// Variables that say where a desktop is.
const DESKTOP: [&str; 6] =
    ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS"];

/// Names the system bus to whatever uses one.
const SYSTEM_BUS: &str = "DBUS_SYSTEM_BUS_ADDRESS";

/// The address of a bus that is not there.
const NO_BUS: &str = "unix:path=/nonexistent/bus";

/// Rates of the fake engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fake {
    /// Tokens of prompt a second.
    pub prefill_tps: f32,
    /// Tokens of answer a second, for each request.
    pub decode_tps: f32,
    /// Milliseconds to load.
    pub load_ms: u32,
}

impl Fake {
    /// Decodes at this rate, reads prompts fast, loads at once.
    pub const fn decoding(decode_tps: f32) -> Self {
        Self { prefill_tps: 5000.0, decode_tps, load_ms: 20 }
    }
}

/// A setting's value, as the environment carries it.
pub struct Setting(String);

macro_rules! settings_from {
    ($($from:ty),+) => {$(
        impl From<$from> for Setting {
            fn from(value: $from) -> Self {
                Self(value.to_string())
            }
        }
    )+};
}
settings_from!(&str, String, bool, u16, u32, f32);

/// An agent to be started. Each setting is a key of `config.toml`, given by the environment.
#[derive(Clone)]
pub struct Launch {
    host: Host,
    home: PathBuf,
    settings: BTreeMap<String, String>,
    logs: PathBuf,
    /// Other variables than settings: where its desktop is.
    environment: BTreeMap<String, OsString>,
    /// Words put before the program, such as `taskset -c 0`.
    wrapper: Vec<String>,
}

impl Launch {
    /// An agent of a lab on one of its hosts, always idle, without rules and with a share of the processor (other tests use this machine too), with a home of its own that outlives it.
    pub fn new(lab: &Lab, host: &Host) -> Result<Self> {
        Self::named(lab, host, host.name())
    }

    /// The same with a name of its own, where a host has several.
    pub fn named(lab: &Lab, host: &Host, name: &str) -> Result<Self> {
        let home = lab.directory(&format!("home-{name}"))?;
        let logs = lab.files().join(format!("{name}.log"));
        // An agent of a test sees no screen, no login and no bus of the machine that the test runs on.
        let environment = BTreeMap::from([(SYSTEM_BUS.to_owned(), NO_BUS.into())]);
        let settings = BTreeMap::new();
        let launch = Self { host: host.clone(), home, settings, logs, environment, wrapper: Vec::new() };
        fs::write(&launch.logs, "").context("make the log")?;
        lab.logs().watch(&launch.logs);
        Ok(launch
            .set("owner.source", "always_idle")
            .set("rules.enabled", false)
            .set("engine.yield_to_all", false)
            .set("log.level", "info,idlewild=debug"))
    }

    /// Sets a key of `config.toml`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Setting>) -> Self {
        self.settings.insert(key.to_owned(), value.into().0);
        self
    }

    /// Listens to this system bus.
    #[must_use]
    pub fn system_bus(mut self, address: &str) -> Self {
        self.environment.insert(SYSTEM_BUS.to_owned(), address.into());
        self
    }

    /// Writes its `config.toml`, also while it runs. What [`Launch::set`] says is stronger.
    pub fn configure(&self, text: &str) -> Result<()> {
        let directory = self.home.join("config");
        fs::create_dir_all(&directory).context("make the directory of settings")?;
        // In one step: an agent that looks in between must not see an empty file.
        let beside = directory.join("config.new");
        fs::write(&beside, text).context("write the settings")?;
        fs::rename(&beside, directory.join("config.toml")).context("put the settings in their place")
    }

    /// Uses the fake engine, whose one model is `fake`.
    #[must_use]
    pub fn fake(self, fake: Fake) -> Self {
        self.set("engine.backend", "fake")
            .set("engine.fake_prefill_tps", fake.prefill_tps)
            .set("engine.fake_decode_tps", fake.decode_tps)
            .set("engine.fake_load_ms", fake.load_ms)
    }

    /// Takes no work: nobody says that its owner is away.
    #[must_use]
    pub fn busy(self) -> Self {
        self.scripted()
    }

    /// Looks for its owner, who is away after so many seconds.
    #[must_use]
    pub fn detecting(self, idle_delay_s: u32) -> Self {
        self.set("owner.source", "detected").set("owner.idle_delay_s", idle_delay_s)
    }

    /// Sets a variable that is no setting, such as `DISPLAY`.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// Follows what [`Launch::owner`] says, also while it runs.
    #[must_use]
    pub fn scripted(self) -> Self {
        self.set("owner.source", "scripted")
    }

    /// Finds peers by these addresses, and not by multicast.
    #[must_use]
    pub fn by_address(self, peers: &[String]) -> Self {
        self.set("swarm.mdns", false).set("swarm.peers", peers.join(","))
    }

    /// Uses another home than the host's usual one.
    #[must_use]
    pub fn home(mut self, home: &Path) -> Self {
        home.clone_into(&mut self.home);
        self
    }

    /// Starts the program through another.
    #[must_use]
    pub fn through(mut self, words: &[&str]) -> Self {
        self.wrapper = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Says what its owner does (`away`, `present`, `unknown`), for [`Launch::scripted`].
    pub fn owner(&self, does: &str) -> Result<()> {
        let state = self.home.join("state");
        fs::create_dir_all(&state).context("make the state directory")?;
        let script = state.join("owner-control");
        let mut file = OpenOptions::new().append(true).create(true).open(script).context("open the owner's script")?;
        writeln!(file, "{does}").context("write the owner's script")
    }

    /// Where its files are.
    pub fn home_path(&self) -> &Path {
        &self.home
    }

    /// What it writes about itself.
    pub fn log_path(&self) -> &Path {
        &self.logs
    }

    /// Its host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// A command of the program with this home and these settings.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let program = program()?;
        let mut command = match self.wrapper.split_first() {
            None => self.host.command(&program),
            Some((first, rest)) => {
                let mut command = self.host.command(first);
                command.args(rest).arg(&program);
                command
            }
        };
        command.args(arguments);
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"IDLEWILD_")) {
            command.env_remove(name);
        }
        for name in DESKTOP {
            command.env_remove(name);
        }
        command.envs(&self.environment);
        command.env("IDLEWILD_HOME", &self.home).env("RUST_BACKTRACE", "1").env_remove("RUST_LOG");
        for (key, value) in &self.settings {
            command.env(format!("IDLEWILD_{}", key.replace('.', "_").to_uppercase()), value);
        }
        Ok(command)
    }

    /// Imports a model file under a name into its store.
    pub fn import(&self, file: &Path, name: &str) -> Result<()> {
        let file = file.to_str().context("a model's path is text")?;
        let output = self.command(&["models", "import", file, "--name", name])?.output().context("import a model")?;
        anyhow::ensure!(output.status.success(), "import failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Starts it, and returns once its API answers.
    pub fn up(self) -> Result<Agent> {
        let agent = self.start()?;
        agent.wait_for_api()?;
        Ok(agent)
    }

    /// Starts it, and returns at once.
    pub fn start(self) -> Result<Agent> {
        let log = OpenOptions::new().append(true).open(&self.logs).context("open the log")?;
        let mut command = self.command(&["up"])?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("start an agent")?;
        Ok(Agent::new(self, child))
    }
}
