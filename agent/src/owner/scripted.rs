//! An owner who does what a file says, for tests and trials.
//!
//! One line an event: `away`, `present` or `unknown`, with `+<ms>` before it to wait that long after the line before.
//! Lines that begin with `#` are ignored. The file may be a FIFO (read as it is written to) or a plain file, to which
//! lines may be added at any time; a plain file that has become shorter is read from its beginning again.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::{Instant, sleep, sleep_until};

use super::{NextReport, OwnerReport, OwnerSource, OwnerState};

/// How often a plain file is looked at. Tests measure reactions of 100 ms.
const POLL: Duration = Duration::from_millis(10);

/// Bytes that one look takes in.
const READ_BYTES: usize = 4096;

/// A longer line is no event.
const MAX_LINE_BYTES: usize = 256;

/// The script cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not read the owner script {path}")]
pub struct ScriptError {
    path: PathBuf,
    source: io::Error,
}

/// Reports what a file says.
#[derive(Debug)]
pub struct Scripted {
    from: From,
    partial: Vec<u8>,
    events: VecDeque<Event>,
    /// When the last event took place.
    last: Instant,
    has_said: bool,
}

#[derive(Debug)]
enum From {
    /// A plain file, which need not exist yet, and how far it was read.
    File { path: PathBuf, at: u64 },
    #[cfg(unix)]
    Fifo(tokio::net::unix::pipe::Receiver),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    after: Duration,
    state: OwnerState,
}

impl Scripted {
    /// Reads `path`. Must be called inside tokio.
    pub fn open(path: PathBuf) -> Result<Self, ScriptError> {
        let from = open(&path).map_err(|source| ScriptError { path, source })?;
        Ok(Self { from, partial: Vec::new(), events: VecDeque::new(), last: Instant::now(), has_said: false })
    }

    /// Waits for the next event. Everything learnt is in `self` before each wait, so that a drop loses nothing.
    async fn advance(&mut self) -> OwnerReport {
        loop {
            if let Some(event) = self.events.front().copied() {
                let due = self.last + event.after;
                sleep_until(due).await;
                self.events.pop_front();
                self.last = if event.after.is_zero() { Instant::now() } else { due };
                self.has_said = true;
                return report(event.state, "the owner script says so");
            }
            let mut bytes = [0; READ_BYTES];
            let read = self.from.read(&mut bytes).await;
            match read {
                Ok(0) if !self.has_said => {
                    self.has_said = true;
                    return report(OwnerState::Unknown, "the owner script says nothing yet");
                }
                Ok(0) => sleep(POLL).await,
                Ok(count) => self.take(&bytes[..count]),
                Err(error) => {
                    tracing::warn!(%error, "the owner script cannot be read");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.partial.push(byte);
                self.partial.truncate(MAX_LINE_BYTES);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned();
            match parse(&line) {
                Ok(Some(event)) => self.events.push_back(event),
                Ok(None) => {}
                Err(()) => tracing::warn!(line, "the owner script has a line that is no event"),
            }
        }
    }
}

impl OwnerSource for Scripted {
    fn next(&mut self) -> NextReport<'_> {
        Box::pin(self.advance())
    }
}

impl From {
    /// Some more bytes; 0 where there are none now.
    async fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File { path, at } => {
                let count = read_from(path, at, bytes).await?;
                *at += count as u64;
                Ok(count)
            }
            #[cfg(unix)]
            Self::Fifo(pipe) => pipe.read(bytes).await,
        }
    }
}

async fn read_from(path: &Path, at: &mut u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut file = match tokio::fs::File::open(path).await {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    if file.metadata().await?.len() < *at {
        *at = 0;
    }
    file.seek(io::SeekFrom::Start(*at)).await?;
    file.read(bytes).await
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<From> {
    use std::os::unix::fs::FileTypeExt;
    if std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
        // Open for writing too, so that the pipe does not end when a writer does.
        return Ok(From::Fifo(tokio::net::unix::pipe::OpenOptions::new().read_write(true).open_receiver(path)?));
    }
    Ok(From::File { path: path.to_owned(), at: 0 })
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<From> {
    Ok(From::File { path: path.to_owned(), at: 0 })
}

fn report(state: OwnerState, reason: &str) -> OwnerReport {
    OwnerReport { state, reason: reason.to_owned() }
}

fn parse(line: &str) -> Result<Option<Event>, ()> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (after, word) = match line.strip_prefix('+') {
        Some(rest) => rest.split_once(char::is_whitespace).ok_or(())?,
        None => ("0", line),
    };
    let after = Duration::from_millis(after.parse().map_err(|_| ())?);
    let state = match word.trim() {
        "away" => OwnerState::Away { idle_for: Duration::ZERO },
        "present" => OwnerState::Present,
        "unknown" => OwnerState::Unknown,
        _ => return Err(()),
    };
    Ok(Some(Event { after, state }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    async fn next(source: &mut Scripted) -> OwnerState {
        tokio::time::timeout(SOON, source.next()).await.unwrap().state
    }

    fn is_away(state: OwnerState) -> bool {
        matches!(state, OwnerState::Away { .. })
    }

    #[test]
    fn lines_are_events_remarks_or_mistakes() {
        let event = |ms, state| Ok(Some(Event { after: Duration::from_millis(ms), state }));
        for (line, expected) in [
            ("present", event(0, OwnerState::Present)),
            (" +250  unknown ", event(250, OwnerState::Unknown)),
            ("away", event(0, OwnerState::Away { idle_for: Duration::ZERO })),
            ("", Ok(None)),
            ("# away", Ok(None)),
            ("+x away", Err(())),
            ("+5", Err(())),
            ("gone", Err(())),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    /// The row of `owner.script` shows its lines in backquotes, after the name of the setting.
    #[test]
    fn the_operating_guide_shows_lines_that_are_events() {
        let guide = include_str!("../../../docs/operating.md");
        let row = guide.lines().find(|line| line.starts_with("| `owner.script` |")).unwrap();
        let shown: Vec<&str> = row.split('`').skip(1).step_by(2).skip(1).collect();
        assert!(shown.len() >= 2, "{row}");
        for line in shown {
            assert!(matches!(parse(line), Ok(Some(_))), "{line}");
        }
    }

    #[tokio::test]
    async fn a_plain_file_is_followed_as_it_grows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        let mut source = Scripted::open(path.clone()).unwrap();
        assert_eq!(next(&mut source).await, OwnerState::Unknown);
        std::fs::write(&path, "away\nnonsense\n").unwrap();
        assert!(is_away(next(&mut source).await));
        // A future that is dropped while it waits loses no event.
        let waited = tokio::time::timeout(Duration::from_millis(30), source.next()).await;
        assert!(waited.is_err());
        std::fs::write(&path, "away\nnonsense\npresent\n").unwrap();
        assert_eq!(next(&mut source).await, OwnerState::Present);
        std::fs::write(&path, "away\n").unwrap();
        assert!(is_away(next(&mut source).await), "a shorter file is read from its beginning");
    }

    #[tokio::test]
    async fn offsets_count_from_the_line_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, "away\n+60 present\n+60 away\n").unwrap();
        let mut source = Scripted::open(path).unwrap();
        assert!(is_away(next(&mut source).await));
        let began = Instant::now();
        assert_eq!(next(&mut source).await, OwnerState::Present);
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
        assert!(is_away(next(&mut source).await));
        assert!(began.elapsed() >= Duration::from_millis(110), "{:?}", began.elapsed());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_fifo_is_read_as_it_is_written_and_outlives_its_writers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut source = Scripted::open(path.clone()).unwrap();
        for (word, expected) in [("present\n", OwnerState::Present), ("unknown\n", OwnerState::Unknown)] {
            let (path, word) = (path.clone(), word.to_owned());
            let writer = tokio::task::spawn_blocking(move || std::fs::write(path, word));
            assert_eq!(next(&mut source).await, expected);
            writer.await.unwrap().unwrap();
        }
    }
}
