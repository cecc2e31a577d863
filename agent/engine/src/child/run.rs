//! The child's one loop: commands between steps, steps while there is work, silence otherwise.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::timeout_at;

use super::batcher::Batcher;
use super::halt::Halt;
use super::load::load;
use crate::Backend;
use crate::config::Limits;
use crate::messages::{ChildStats, EngineCommand, EngineEvent};

/// Commands obeyed between two steps while there is work: whoever floods the engine does not stop the others' tokens.
const COMMANDS_PER_STEP: u32 = 32;

/// How often rates are reported while it works.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Runs until the commands end or `emit` says that nobody listens. Blocks: give it a thread outside of any runtime.
pub(crate) fn run(commands: mpsc::Receiver<EngineCommand>, halt: &Arc<Halt>, emit: impl FnMut(EngineEvent) -> bool) {
    let mut commands = match Commands::new(commands) {
        Ok(commands) => commands,
        Err(error) => {
            tracing::error!(%error, "the engine has no clock");
            return;
        }
    };
    let halt = Arc::clone(halt);
    let mut looper = Looper { configured: None, batcher: None, reporter: Reporter::default(), halt, obeyed: 0, emit };
    while let Some(command) = looper.next_command(&mut commands) {
        let is_heard = match command {
            Next::Command(command) => {
                looper.obeyed += 1;
                looper.obey(command)
            }
            Next::Step => {
                looper.obeyed = 0;
                looper.step()
            }
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

/// The queue of commands, waited for with a deadline.
struct Commands {
    queue: mpsc::Receiver<EngineCommand>,
    /// Nothing but a clock: the queue cannot be waited for on a thread with a deadline otherwise.
    clock: Runtime,
}

impl Commands {
    fn new(queue: mpsc::Receiver<EngineCommand>) -> io::Result<Self> {
        let clock = runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { queue, clock })
    }

    fn now(&mut self) -> Option<Next> {
        match self.queue.try_recv() {
            Ok(command) => Some(Next::Command(command)),
            Err(TryRecvError::Empty) => Some(Next::Step),
            Err(TryRecvError::Disconnected) => None,
        }
    }

    /// The next command, or a step at the deadline.
    fn wait(&mut self, deadline: Option<Instant>) -> Option<Next> {
        let Some(deadline) = deadline else { return self.queue.blocking_recv().map(Next::Command) };
        let Self { queue, clock } = self;
        match clock.block_on(async { timeout_at(deadline.into(), queue.recv()).await }) {
            Ok(command) => command.map(Next::Command),
            Err(_) => Some(Next::Step),
        }
    }
}

struct Looper<E> {
    configured: Option<(Backend, Limits)>,
    batcher: Option<Batcher>,
    reporter: Reporter,
    halt: Arc<Halt>,
    /// Commands since the last step.
    obeyed: u32,
    emit: E,
}

impl<E: FnMut(EngineEvent) -> bool> Looper<E> {
    /// A command if there is one, else a step if there is work; otherwise waits for a command, or until those that wait
    /// for a slot have to show that they are alive. None when the commands end.
    fn next_command(&self, commands: &mut Commands) -> Option<Next> {
        let Some(batcher) = &self.batcher else { return commands.wait(None) };
        if batcher.has_work() && self.obeyed >= COMMANDS_PER_STEP {
            return Some(Next::Step);
        }
        if batcher.has_work() { commands.now() } else { commands.wait(batcher.proof_due()) }
    }

    fn obey(&mut self, command: EngineCommand) -> bool {
        match command {
            EngineCommand::Configure { backend, limits } => self.configured = Some((backend, limits)),
            EngineCommand::Load(file) => {
                self.batcher = None;
                let Some((backend, limits)) = self.configured else { return false };
                let answer = match load(backend, limits, &file) {
                    Ok(loaded) => {
                        let report = loaded.report.clone();
                        self.batcher = Some(Batcher::over(loaded, limits.slots, Arc::clone(&self.halt)));
                        EngineEvent::Loaded(report)
                    }
                    Err(failure) => EngineEvent::LoadFailed(failure),
                };
                // The rates come first, so that they are known when the load is.
                return self.report() && (self.emit)(answer);
            }
            EngineCommand::Unload => self.batcher = None,
            EngineCommand::Submit { id, job, beginning } => {
                if let Some(batcher) = &mut self.batcher {
                    batcher.begin(id, &job, beginning);
                }
            }
            EngineCommand::Sequence { id, command } => {
                if let Some(batcher) = &mut self.batcher {
                    batcher.tell(id, command);
                }
                if !(self.emit)(EngineEvent::Obeyed) {
                    return false;
                }
            }
            // Whoever read it has set the flag; it only wakes the loop.
            EngineCommand::Halt(_) => {}
            EngineCommand::Cancel(id) => {
                if let Some(batcher) = &mut self.batcher {
                    batcher.cancel(id);
                }
            }
        }
        self.report()
    }

    /// What is copied goes out before the batch is computed: a destination waits for it.
    fn step(&mut self) -> bool {
        if let Some(batcher) = &mut self.batcher {
            batcher.copy();
        }
        if !self.report() {
            return false;
        }
        if let Some(batcher) = &mut self.batcher {
            batcher.compute();
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
