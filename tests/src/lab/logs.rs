//! The logs of a test's processes: checked when it ends, shown when it fails.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// Lines of each log that a failed test shows.
const SHOWN_LINES: usize = 60;

/// The logs of one test.
#[derive(Default)]
pub struct Logs(Mutex<State>);

#[derive(Default)]
struct State {
    files: Vec<PathBuf>,
    /// Texts of ERROR lines that this test provokes.
    expected: Vec<String>,
}

impl Logs {
    /// Adds a log; from now on its ERROR lines fail the test.
    pub fn watch(&self, path: &Path) {
        self.with(|state| {
            if !state.files.iter().any(|known| known == path) {
                state.files.push(path.to_owned());
            }
        });
    }

    /// Announces ERROR lines that hold this text.
    pub fn expect_error(&self, text: &str) {
        self.with(|state| state.expected.push(text.to_owned()));
    }

    /// Fails on the first ERROR line, or panic, that was not announced.
    pub(super) fn check(&self) -> Result<()> {
        let (files, expected) = self.with(|state| (state.files.clone(), state.expected.clone()));
        for path in files {
            let text = read(&path)?;
            let faults = text.lines().filter(|line| is_fault(line));
            if let Some(line) = faults.into_iter().find(|line| !expected.iter().any(|text| line.contains(text))) {
                bail!("{} holds an error that no test expects: {line}", path.display());
            }
        }
        Ok(())
    }

    /// Prints the last lines of every log.
    pub(super) fn print_ends(&self) {
        let mut stderr = std::io::stderr().lock();
        for path in self.with(|state| state.files.clone()) {
            let text = read(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let _ = writeln!(stderr, "--- end of {} ({} lines)", path.display(), lines.len());
            for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                let _ = writeln!(stderr, "{line}");
            }
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line that says ERROR where tracing puts the level (after the time), or that a thread panicked.
fn is_fault(line: &str) -> bool {
    line.split_whitespace().take(2).any(|word| word == "ERROR") || line.contains("panicked at")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_counts_where_it_stands_as_one() {
        for (line, expected) in [
            ("2026-01-01T00:00:00.0Z ERROR idlewild: store lost", true),
            ("ERROR store lost", true),
            ("2026-01-01T00:00:00.0Z  INFO idlewild: an ERROR of a peer", false),
            ("thread 'main' panicked at src/x.rs:1:1:", true),
        ] {
            assert_eq!(is_fault(line), expected, "{line}");
        }
    }

    #[test]
    fn an_unexpected_error_fails_and_an_expected_one_does_not() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), "t ERROR disk full\n")?;
        let logs = Logs::default();
        logs.watch(file.path());
        assert!(logs.check().is_err());
        logs.expect_error("disk full");
        logs.check()
    }
}
