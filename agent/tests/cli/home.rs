//! A home directory of its own for each test, and the binary run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long an agent may take to answer or to end on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// An agent that talks on loopback only.
pub(crate) const QUIETLY: [&str; 13] = [
    "up",
    "--set",
    "api.port=0",
    "--set",
    "swarm.port=0",
    "--set",
    "swarm.listen=127.0.0.1",
    "--set",
    "swarm.mdns=false",
    "--set",
    "engine.backend=fake",
    "--set",
    "rules.enabled=false",
];

/// A home that is removed at the end of its test.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks how it ended and that stderr says all of `words`.
    #[track_caller]
    pub(crate) fn check(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing in {self:?}");
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// A command of the binary in this home, with no setting from outside.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(&self.path("home"), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// The same with text on stdin.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> Ended {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The command may end before it has read all: that is for its exit code to tell.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        Ended::of(child.wait_with_output().unwrap())
    }

    /// Starts an agent with the fake engine.
    fn start(&self, arguments: &[&str]) -> Agent<'_> {
        let child = self
            .command(&QUIETLY)
            .args(arguments)
            .env("SSLKEYLOGFILE", self.path("tls-keys"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.path("agent.log")).unwrap())
            .spawn()
            .unwrap();
        Agent { home: self, child }
    }

    /// Starts an agent that must refuse to run, and gives how it ended.
    pub(crate) fn refused(&self, arguments: &[&str]) -> Ended {
        let code = self.start(arguments).wait();
        Ended { code, out: String::new(), err: std::fs::read_to_string(self.path("agent.log")).unwrap() }
    }

    /// Starts an agent with the fake engine and waits until it answers.
    pub(crate) fn up(&self, arguments: &[&str]) -> Agent<'_> {
        let agent = self.start(arguments);
        let deadline = Instant::now() + DEADLINE;
        while self.run(&["status"]).code != 0 {
            let log = std::fs::read_to_string(self.path("agent.log")).unwrap();
            assert!(Instant::now() < deadline, "the agent does not answer:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        agent
    }
}

/// Waits until something is so.
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command of the binary in any home, with no setting from outside.
pub(crate) fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idlewild"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"IDLEWILD_") {
            command.env_remove(name);
        }
    }
    // What else the machine has to do is not to fail a test.
    command.env("IDLEWILD_ENGINE_YIELD_TO_ALL", "false");
    command.env("IDLEWILD_HOME", home).env_remove("NO_COLOR").args(arguments);
    command
}

/// A running agent, ended with its test.
pub(crate) struct Agent<'a> {
    home: &'a Home,
    child: Child,
}

impl Agent<'_> {
    /// Waits until a field of the status is as wanted.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = self.home.run(&["status", "--json"]);
            if status.code == 0 && is_so(&status.json()) {
                return status.json();
            }
            assert!(Instant::now() < deadline, "not {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end by itself.
    pub(crate) fn wait(mut self) -> i32 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "the agent does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
