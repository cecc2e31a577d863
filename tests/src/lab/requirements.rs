//! What some tests need besides a network, and what they do without it.

use std::path::PathBuf;

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

fn named(variable: &str, lack: &str) -> Result<Option<PathBuf>> {
    let Some(path) = std::env::var_os(variable).map(PathBuf::from) else {
        return skip(lack, &format!("{variable} names none; tests/run.sh sets it")).map(|()| None);
    };
    let path = std::path::absolute(&path).context("find it")?;
    ensure!(path.is_file(), "{variable} names {}, which is no file", path.display());
    Ok(Some(path))
}
