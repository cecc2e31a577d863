//! What tells whether the owner is there.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use super::scripted::{ScriptError, Scripted};
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
    /// Where it comes from and what to do about it, for `idlewild status`.
    pub reason: String,
}

/// The next report, some time.
pub type NextReport<'a> = Pin<Box<dyn Future<Output = OwnerReport> + Send + 'a>>;

/// Reports the owner's state: at once when first asked, then on every change, as it happens.
pub trait OwnerSource: Send {
    /// The next report. Dropping the future loses none.
    fn next(&mut self) -> NextReport<'_>;
}

/// The source that the settings name.
pub fn owner_source(settings: &OwnerSettings, paths: &Paths) -> Result<Box<dyn OwnerSource>, ScriptError> {
    Ok(match settings.source {
        OwnerChoice::Unattended => Box::new(Unattended::default()),
        OwnerChoice::AlwaysIdle => Box::new(AlwaysIdle::default()),
        OwnerChoice::Scripted if settings.script.is_empty() => Box::new(Scripted::open(paths.owner_control_file())?),
        OwnerChoice::Scripted => Box::new(Scripted::open(PathBuf::from(&settings.script))?),
    })
}

/// A machine without an owner: away from the start, for ever.
#[derive(Debug, Default)]
pub struct AlwaysIdle {
    has_said: bool,
}

impl OwnerSource for AlwaysIdle {
    fn next(&mut self) -> NextReport<'_> {
        let reason = "set to always idle";
        once(&mut self.has_said, OwnerState::Away { idle_for: Duration::ZERO }, reason)
    }
}

/// A machine whose owner nobody watches for yet: unknown, for ever.
#[derive(Debug, Default)]
pub struct Unattended {
    has_said: bool,
}

impl OwnerSource for Unattended {
    fn next(&mut self) -> NextReport<'_> {
        let reason = "nothing can tell yet whether the owner is there, so this machine takes no work; \
                      if nobody works at it, start with `idlewild up --always-idle`";
        once(&mut self.has_said, OwnerState::Unknown, reason)
    }
}

fn once(has_said: &mut bool, state: OwnerState, reason: &'static str) -> NextReport<'static> {
    if std::mem::replace(has_said, true) {
        return Box::pin(std::future::pending());
    }
    Box::pin(std::future::ready(OwnerReport { state, reason: reason.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn constant_sources_say_their_word_once() {
        let mut idle = AlwaysIdle::default();
        assert!(matches!(idle.next().await.state, OwnerState::Away { .. }));
        let mut unattended = Unattended::default();
        let report = unattended.next().await;
        assert_eq!(report.state, OwnerState::Unknown);
        assert!(report.reason.contains("--always-idle"));
        for source in [&mut idle as &mut dyn OwnerSource, &mut unattended] {
            let again = tokio::time::timeout(Duration::from_millis(5), source.next()).await;
            assert!(again.is_err(), "said the same twice");
        }
    }
}
