//! Runs the system's own network tools and makes an error of everything but success.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `program` with words separated by blanks; gives what it printed.
pub(super) fn run(program: &str, words: &str) -> Result<String> {
    finish(Command::new(program).args(words.split_whitespace()), None)
}

/// Runs `command`, gives it `input`, and returns what it printed.
pub(super) fn finish(command: &mut Command, input: Option<&str>) -> Result<String> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {command:?}"))?;
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        pipe.write_all(input.as_bytes()).with_context(|| format!("write to {command:?}"))?;
    }
    let output = child.wait_with_output().with_context(|| format!("wait for {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
