//! macOS: the counter of the driver of keyboards and pointers, `HIDIdleTime`, as the system's own `ioreg` prints it.
//!
//! It is one for the whole machine, whoever is logged in. Every look starts a program, so that it is asked once a second and
//! only while nobody is there: input is seen up to a second late. Locks and inhibitors are not looked at.
//!
//! Deliberately absent: IOKit itself, which would be unsafe code that nobody here can build or run.

mod ioreg;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::keep::{Trouble, answer, keep_alone};
use super::polled::{Counter, follow};
use crate::owner::sighting::{LayerKind, Sighting};

/// Where it is, and what it is asked: the branch of the tree with the driver, not below.
const PROGRAM: &str = "/usr/sbin/ioreg";
const ARGUMENTS: [&str; 4] = ["-c", "IOHIDSystem", "-d", "4"];

/// A longer answer is none: real ones have some ten thousand bytes.
const ANSWER_MAX: u64 = 1024 * 1024;

/// What asks.
#[derive(Debug)]
struct Driver {
    program: String,
    arguments: Vec<String>,
}

impl Driver {
    fn of_system() -> Self {
        Self { program: PROGRAM.to_owned(), arguments: ARGUMENTS.map(str::to_owned).to_vec() }
    }
}

impl Counter for Driver {
    const EVERY: Duration = Duration::from_secs(1);

    async fn idle(&mut self) -> Result<Duration, Trouble> {
        let failed = |error: std::io::Error| Trouble::Blind(format!("{} cannot be run: {error}", self.program));
        answer(&self.program, async {
            let mut command = Command::new(&self.program);
            command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
            let mut text = Vec::new();
            if let Some(output) = child.stdout.take() {
                output.take(ANSWER_MAX).read_to_end(&mut text).await.map_err(failed)?;
            }
            child.wait().await.map_err(failed)?;
            let none = || Trouble::Blind("the driver of keyboards and pointers tells no HIDIdleTime".to_owned());
            ioreg::idle(&String::from_utf8_lossy(&text)).ok_or_else(none)
        })
        .await
    }
}

/// Starts the one layer; it ends when the set is dropped. Nobody is listened to in other sessions: the counter knows of all.
pub(in crate::owner) fn start(
    delay: Duration,
    _lookouts: Option<PathBuf>,
    sightings: &mpsc::Sender<(LayerKind, Sighting)>,
) -> (Vec<LayerKind>, JoinSet<()>) {
    keep_alone(LayerKind::Macos, delay, sightings, |out| async move { follow(&out, Driver::of_system()).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_drivers_answer_is_read_and_whatever_is_none_is_blindness() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer");
        // A program that answers with a file.
        let idle = async |program: &str, text: &str| {
            std::fs::write(&file, text).unwrap();
            let arguments = vec![file.to_str().unwrap().to_owned()];
            Driver { program: program.to_owned(), arguments }.idle().await
        };
        assert_eq!(idle("cat", "    | |   \"HIDIdleTime\" = 2500000000\n").await, Ok(Duration::from_millis(2500)));
        for (program, text) in [("cat", ""), ("cat", "+-o Root"), ("true", ""), ("/nonexistent/ioreg", "")] {
            assert!(matches!(idle(program, text).await, Err(Trouble::Blind(_))), "{program} {text:?}");
        }
    }

    #[tokio::test]
    #[cfg(not(target_os = "macos"))]
    async fn without_the_program_nobody_is_taken_to_be_away() {
        let (sightings, mut seen) = mpsc::channel(1);
        let (kinds, _layers) = start(Duration::from_mins(3), None, &sightings);
        let (kind, sighting) = seen.recv().await.unwrap();
        assert_eq!(kinds, [kind]);
        assert!(kind.is_screen() && matches!(sighting, Sighting::Blind { .. }), "{sighting:?}");
    }
}
