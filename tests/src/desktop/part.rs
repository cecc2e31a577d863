//! A process that ends with the test.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A process. Dropping it kills it.
pub(super) struct Part(pub(super) Child);

impl Part {
    /// Starts it with pipes for its input and output, and nothing on the terminal.
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("start {command:?} (tests/run.sh installs what is needed)"))?))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // One that has ended needs no more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
