//! The child's one loop: commands between steps, steps while there is work, silence otherwise.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::batcher::Batcher;
use super::load::load;
use crate::Backend;
use crate::config::Limits;
use crate::messages::{ChildStats, EngineCommand, EngineEvent};

/// How often rates are reported while it works.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Runs until the commands end or `emit` says that nobody listens. Blocks: give it a thread outside of any runtime.
pub(crate) fn run(mut commands: mpsc::Receiver<EngineCommand>, emit: impl FnMut(EngineEvent) -> bool) {
    let mut looper = Looper { configured: None, batcher: None, reporter: Reporter::default(), emit };
    while let Some(command) = looper.next_command(&mut commands) {
        let is_heard = match command {
            Next::Command(command) => looper.obey(command),
            Next::Step => looper.step(),
        };
        if !is_heard {
            return;
        }
    }
}

enum Next {
    Command(EngineCommand),
    Step,
}

struct Looper<E> {
    configured: Option<(Backend, Limits)>,
    batcher: Option<Batcher>,
    reporter: Reporter,
    emit: E,
}

impl<E: FnMut(EngineEvent) -> bool> Looper<E> {
    /// A command if there is one, else a step if there is work; otherwise waits for a command. None when they end.
    fn next_command(&self, commands: &mut mpsc::Receiver<EngineCommand>) -> Option<Next> {
        if !self.batcher.as_ref().is_some_and(Batcher::has_work) {
            return commands.blocking_recv().map(Next::Command);
        }
        match commands.try_recv() {
            Ok(command) => Some(Next::Command(command)),
            Err(TryRecvError::Empty) => Some(Next::Step),
            Err(TryRecvError::Disconnected) => None,
        }
    }

    fn obey(&mut self, command: EngineCommand) -> bool {
        match command {
            EngineCommand::Configure { backend, limits } => self.configured = Some((backend, limits)),
            EngineCommand::Load(file) => {
                self.batcher = None;
                let Some((backend, limits)) = self.configured else { return false };
                let answer = match load(backend, limits, &file) {
                    Ok(loaded) => {
                        self.batcher = Some(Batcher::new(loaded.model, limits.slots, loaded.rates));
                        EngineEvent::Loaded(loaded.report)
                    }
                    Err(failure) => EngineEvent::LoadFailed(failure),
                };
                // The rates come first, so that they are known when the load is.
                return self.report() && (self.emit)(answer);
            }
            EngineCommand::Unload => self.batcher = None,
            EngineCommand::Submit { id, job } => {
                if let Some(batcher) = &mut self.batcher {
                    batcher.submit(id, &job);
                }
            }
            EngineCommand::Cancel(id) => {
                if let Some(batcher) = &mut self.batcher {
                    batcher.cancel(id);
                }
            }
        }
        self.report()
    }

    fn step(&mut self) -> bool {
        if let Some(batcher) = &mut self.batcher {
            batcher.step();
        }
        self.report()
    }

    /// Passes on what happened, and the counts where they changed or are due.
    fn report(&mut self) -> bool {
        let Some(batcher) = &mut self.batcher else {
            return self.reporter.report(ChildStats::default(), &mut self.emit);
        };
        let is_heard = batcher.events().all(&mut self.emit);
        is_heard && self.reporter.report(batcher.stats(), &mut self.emit)
    }
}

#[derive(Default)]
struct Reporter {
    last: Option<(ChildStats, Instant)>,
}

impl Reporter {
    fn report(&mut self, stats: ChildStats, emit: &mut impl FnMut(EngineEvent) -> bool) -> bool {
        let is_due = self.last.as_ref().is_none_or(|(last, at)| {
            last.with_rates_of(stats) != stats || (*last != stats && at.elapsed() >= REPORT_EVERY)
        });
        if !is_due {
            return true;
        }
        self.last = Some((stats, Instant::now()));
        emit(EngineEvent::Stats(stats))
    }
}
