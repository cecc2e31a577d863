//! What tells whether the owner is there.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

use super::detected::Detected;
#[cfg(target_os = "linux")]
use super::lookout::listening_socket;
use super::scripted::{ScriptError, Scripted};
use super::sighting::OwnerSight;
use crate::config::{OwnerChoice, OwnerSettings, Paths};

/// Whether the owner is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// Not for this long already.
    Away {
        /// Time since the last sign of the owner when this was reported.
        idle_for: Duration,
    },
    /// At the machine.
    Present,
    /// Nobody can tell: counts as present.
    Unknown,
}

/// What a source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReport {
    /// The state.
    pub state: OwnerState,
    /// Every reason for it, and what to do about it, for `idlewild status`.
    pub reason: String,
}

/// The next report, some time.
pub type NextReport<'a> = Pin<Box<dyn Future<Output = OwnerReport> + Send + 'a>>;

/// Reports the owner's state: at once when first asked, then on every change, as it happens.
pub trait OwnerSource: Send {
    /// The next report. Dropping the future loses none.
    fn next(&mut self) -> NextReport<'_>;

    /// Says how long without input makes an owner away, while the source runs; to no effect where it does not go by that.
    fn delay(&self) -> watch::Sender<Duration> {
        watch::channel(Duration::ZERO).0
    }

    /// Follows what a detector's layers see; nothing where the source is none.
    fn sight(&self) -> watch::Receiver<OwnerSight> {
        watch::channel(OwnerSight::default()).1
    }
}

/// Whom a detector listens to besides what it sees itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// Lookouts in other sessions, if the settings or the service manager name a socket for them.
    Lookouts,
    /// Nobody: for a look in between.
    Nobody,
}

/// The source that the settings name. Must be called inside tokio.
pub fn owner_source(
    settings: &OwnerSettings,
    paths: &Paths,
    hearing: Hearing,
) -> Result<Box<dyn OwnerSource>, ScriptError> {
    let delay = Duration::from_secs(u64::from(settings.idle_delay_s));
    let lookouts = match hearing {
        Hearing::Lookouts => listening_socket(settings),
        Hearing::Nobody => None,
    };
    Ok(match settings.source {
        OwnerChoice::Detected => Box::new(Detected::start(delay, lookouts)),
        OwnerChoice::AlwaysIdle => Box::new(AlwaysIdle::default()),
        OwnerChoice::Scripted if settings.script.is_empty() => Box::new(Scripted::open(paths.owner_control_file())?),
        OwnerChoice::Scripted => Box::new(Scripted::open(PathBuf::from(&settings.script))?),
    })
}

/// Elsewhere an agent hears nobody: it runs in the session of its user.
#[cfg(not(target_os = "linux"))]
fn listening_socket(_settings: &OwnerSettings) -> Option<PathBuf> {
    None
}

/// A machine without an owner: away from the start, for ever.
#[derive(Debug, Default)]
pub struct AlwaysIdle {
    has_said: bool,
}

impl OwnerSource for AlwaysIdle {
    fn next(&mut self) -> NextReport<'_> {
        if std::mem::replace(&mut self.has_said, true) {
            return Box::pin(std::future::pending());
        }
        let state = OwnerState::Away { idle_for: Duration::ZERO };
        Box::pin(std::future::ready(OwnerReport { state, reason: "set to always idle".to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_constant_source_says_its_word_once() {
        let mut idle = AlwaysIdle::default();
        assert!(matches!(idle.next().await.state, OwnerState::Away { .. }));
        let again = tokio::time::timeout(Duration::from_millis(5), idle.next()).await;
        assert!(again.is_err(), "said the same twice");
        assert!(idle.sight().borrow().layers.is_empty());
    }
}
