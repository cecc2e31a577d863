//! What some tests need besides a network, and what they do without it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::permission::skip;

/// A small model with real weights, for tests in which the words themselves count.
const MODEL_VARIABLE: &str = "IDLEWILD_TEST_MODEL";

/// A Python with the `openai` package.
const PYTHON_VARIABLE: &str = "IDLEWILD_PYTHON";

/// The real model's file; none where none is named, after a loud line (or a failure, where tests must not be skipped).
pub fn real_model() -> Result<Option<PathBuf>> {
    named(MODEL_VARIABLE, "no real model")
}

/// The Python; none where none is named, likewise.
pub fn python() -> Result<Option<PathBuf>> {
    named(PYTHON_VARIABLE, "no Python with openai")
}

/// What the desktops of [`crate::desktop`] are made of.
const DESKTOP: [&str; 5] = ["Xvfb", "xdotool", "dbus-daemon", "dbus-send", "mutter"];

/// Whether a desktop can be put up; where it cannot, likewise.
pub fn can_have_desktop() -> Result<bool> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&str| std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    let mut missing: Vec<&str> = DESKTOP.into_iter().filter(|program| !is_there(program)).collect();
    let python = Command::new("/usr/bin/python3").args(["-c", "import dbusmock"]).stderr(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        missing.push("python3-dbusmock");
    }
    if missing.is_empty() {
        return Ok(true);
    }
    skip("no desktop", &format!("{} missing; tests/run.sh installs them", missing.join(", "))).map(|()| false)
}

fn named(variable: &str, lack: &str) -> Result<Option<PathBuf>> {
    let Some(path) = std::env::var_os(variable).map(PathBuf::from) else {
        return skip(lack, &format!("{variable} names none; tests/run.sh sets it")).map(|()| None);
    };
    let path = std::path::absolute(&path).context("find it")?;
    ensure!(path.is_file(), "{variable} names {}, which is no file", path.display());
    Ok(Some(path))
}
