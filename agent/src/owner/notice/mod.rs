//! The machine says that it will sleep or shut down, and waits a moment for us: logind's delay inhibitors. A pure state
//! machine; what it asks for the shell (`logind`) does.
//!
//! ```text
//! logind: PrepareForSleep(true) --> Leave(Sleep, notice) --> driver: gate, goodbye --said--> Release: the machine sleeps
//!         PrepareForSleep(false) -> Back(Sleep), Take            (or after HOLD_MAX, whatever the driver does)
//! ```
//!
//! Two inhibitors, one for each, since the combined one is refused to users without a session. A lid that closes is no word
//! of its own here: where it puts the machine to sleep, logind says so by PrepareForSleep, and where it does not (a desk
//! with a screen) nothing leaves.

#[cfg(target_os = "linux")]
mod logind;
#[cfg(target_os = "linux")]
mod metered;
mod reach;
#[cfg(test)]
mod tests;

use std::time::Duration;

use idlewild_protocol::DepartureCause;
use tokio::sync::{mpsc, oneshot};

pub use reach::{Contact, Reach};

/// Longest time for which the machine is kept from sleeping: to hold it annoys whoever closed the lid.
pub const HOLD_MAX: Duration = Duration::from_millis(1500);

/// Kept back from the notice, so that the machine is let go while others still count on us.
const MARGIN: Duration = Duration::from_millis(100);

/// What the driver hears.
#[derive(Debug)]
pub enum Notice {
    /// The machine leaves.
    Leave {
        /// Why: sleep or shutdown.
        cause: DepartureCause,
        /// How long it can still be reached.
        notice: Duration,
        /// To be told once others know, and need nothing more from here.
        said: oneshot::Sender<()>,
    },
    /// It has come back, or does not leave after all.
    Back {
        /// From what.
        cause: DepartureCause,
    },
    /// Whether the network is metered, as far as anybody knows.
    Metered(Option<bool>),
}

/// Listens to the system for as long as the driver does.
#[cfg(target_os = "linux")]
pub fn listen(grace: Duration, news: mpsc::Sender<Notice>) {
    tokio::spawn(logind::listen(grace, news));
}

/// No other system's word is known here yet: its machines leave without a notice.
#[cfg(not(target_os = "linux"))]
pub fn listen(_grace: Duration, _news: mpsc::Sender<Notice>) {}

/// What can be held back for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    Sleep,
    Shutdown,
}

impl Lock {
    const BOTH: [Self; 2] = [Self::Sleep, Self::Shutdown];

    fn cause(self) -> DepartureCause {
        match self {
            Self::Sleep => DepartureCause::Sleep,
            Self::Shutdown => DepartureCause::Shutdown,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// logind is there; it waits for holders of an inhibitor so long at most.
    Connected { delay_max: Duration },
    /// An inhibitor was got.
    Taken(Lock),
    /// It begins (true), or is over.
    Prepare(Lock, bool),
    /// The driver has said goodbye.
    Said(Lock),
    /// logind, or the bus, is gone.
    Lost,
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Ask for an inhibitor.
    Take(Lock),
    /// Let go of it.
    Release(Lock),
    /// Tell the driver that the machine leaves.
    Leave(Lock, Duration),
    /// Tell the driver that it is back.
    Back(Lock),
}

/// One of the two.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_held: bool,
    is_leaving: bool,
    /// When it is let go at the latest.
    until: Option<Duration>,
}

/// The conversation with logind.
#[derive(Debug)]
struct Machine {
    grace: Duration,
    delay_max: Duration,
    states: [State; 2],
}

impl Machine {
    /// Of an agent that keeps contexts for `grace`.
    fn new(grace: Duration) -> Self {
        Self { grace, delay_max: Duration::ZERO, states: [State::default(); 2] }
    }

    /// Takes in what happened at `now`; gives what to do, in order.
    fn handle(&mut self, now: Duration, heard: Heard) -> Vec<Act> {
        match heard {
            Heard::Connected { delay_max } => {
                self.delay_max = delay_max;
                Lock::BOTH.map(Act::Take).to_vec()
            }
            Heard::Taken(lock) => {
                self.state(lock).is_held = true;
                Vec::new()
            }
            Heard::Prepare(lock, true) => self.leave(now, lock),
            Heard::Prepare(lock, false) => self.come_back(lock),
            Heard::Said(lock) => self.release(lock),
            Heard::Lost => {
                let gone = |machine: &mut Self, lock| {
                    let state = std::mem::take(machine.state(lock));
                    let acts =
                        [state.is_held.then_some(Act::Release(lock)), state.is_leaving.then_some(Act::Back(lock))];
                    acts.into_iter().flatten()
                };
                Lock::BOTH.into_iter().flat_map(|lock| gone(self, lock)).collect()
            }
            Heard::Tick => {
                let due =
                    Lock::BOTH.into_iter().filter(|lock| self.state(*lock).until.is_some_and(|until| until <= now));
                due.collect::<Vec<_>>().into_iter().flat_map(|lock| self.release(lock)).collect()
            }
        }
    }

    /// When to say [`Heard::Tick`].
    fn poll_timeout(&self) -> Option<Duration> {
        self.states.iter().filter_map(|state| state.until).min()
    }

    /// Without an inhibitor the machine waits for nobody: there is no notice.
    fn leave(&mut self, now: Duration, lock: Lock) -> Vec<Act> {
        let hold = self.delay_max.min(HOLD_MAX);
        let notice = self.grace.min(hold.saturating_sub(MARGIN));
        let state = self.state(lock);
        if state.is_leaving {
            return Vec::new();
        }
        state.is_leaving = true;
        state.until = state.is_held.then_some(now + hold);
        vec![Act::Leave(lock, if state.is_held { notice } else { Duration::ZERO })]
    }

    fn come_back(&mut self, lock: Lock) -> Vec<Act> {
        let released = self.release(lock);
        let was_leaving = std::mem::take(&mut self.state(lock).is_leaving);
        if !was_leaving {
            return Vec::new();
        }
        released.into_iter().chain([Act::Take(lock), Act::Back(lock)]).collect()
    }

    /// Lets go of what is held for a machine that leaves.
    fn release(&mut self, lock: Lock) -> Vec<Act> {
        let state = self.state(lock);
        state.until = None;
        let is_let_go = state.is_leaving && std::mem::take(&mut state.is_held);
        if is_let_go { vec![Act::Release(lock)] } else { Vec::new() }
    }

    fn state(&mut self, lock: Lock) -> &mut State {
        let [sleep, shutdown] = &mut self.states;
        match lock {
            Lock::Sleep => sleep,
            Lock::Shutdown => shutdown,
        }
    }
}
