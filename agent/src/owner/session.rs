//! From the owner's comings and goings to sessions. Pure: time is an argument.
//!
//! A session lasts while the owner is away, nothing forbids, the machine is awake, and the agent is not leaving. Whatever
//! ends it gives it its cause; of several, the first that happened.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_protocol::DepartureCause;

use super::{CHECKPOINTS, OwnerReport, OwnerState};

/// How often a session's age should be written down: a crash loses at most this much of its length.
pub const BEAT: Duration = Duration::from_secs(15);

/// An agent whose machine is awake gives a sign of life every second. If none came for longer than this, the machine
/// slept (or stood still, which is the same to everybody else): nobody was served meanwhile.
pub const SLEPT: Duration = Duration::from_secs(5);

/// After sleep no session begins for so long: who woke the machine is mostly its owner, and what watches for that needs a
/// moment to see it.
pub const AWAKENING: Duration = Duration::from_secs(3);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionInput {
    /// The owner source reported.
    Owner(OwnerReport),
    /// Something forbids from now on: battery, a rule, the network that went away.
    Blocked {
        /// What; each cause blocks by itself until it is lifted.
        cause: DepartureCause,
        /// In words.
        reason: String,
    },
    /// It no longer does.
    Unblocked {
        /// What.
        cause: DepartureCause,
    },
    /// The agent or the machine goes down; nothing begins after this.
    Leaving {
        /// Why.
        cause: DepartureCause,
    },
    /// Nothing but time, which begins a session after sleep.
    Tick,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange {
    /// A session has begun: serve.
    Began,
    /// It has ended: stop.
    Ended {
        /// Why.
        cause: DepartureCause,
        /// How long it lasted.
        length: Duration,
    },
}

/// Whether a session lasts, and why not.
#[derive(Debug)]
pub struct SessionTracker {
    owner: OwnerReport,
    blocks: BTreeMap<DepartureCause, String>,
    leaving: Option<DepartureCause>,
    /// When the live session began, in time since the agent started.
    began: Option<Duration>,
    /// The last sign of life; none before the first.
    alive_at: Option<Duration>,
    /// No session begins before, since the machine has just woken.
    awake_at: Duration,
    /// When the age of the live session is to be written down next.
    next_beat: Duration,
    /// How many of the [`CHECKPOINTS`] the live session has passed.
    checkpoints: usize,
}

impl Default for SessionTracker {
    fn default() -> Self {
        let owner = OwnerReport { state: OwnerState::Unknown, reason: "the owner source has not reported yet".into() };
        Self {
            owner,
            blocks: BTreeMap::new(),
            leaving: None,
            began: None,
            alive_at: None,
            awake_at: Duration::ZERO,
            next_beat: Duration::ZERO,
            checkpoints: 0,
        }
    }
}

impl SessionTracker {
    /// A sign of life at `now` (as for [`Self::handle`]), to be given before anything else that happens then, and each
    /// second at least. If the machine slept since the last one, its session ended when it fell asleep.
    pub fn wake(&mut self, now: Duration) -> Option<SessionChange> {
        let before = self.alive_at.replace(now).unwrap_or(now);
        if now.saturating_sub(before) <= SLEPT {
            return None;
        }
        self.awake_at = now + AWAKENING;
        let began = self.began.take()?;
        Some(SessionChange::Ended { cause: DepartureCause::Sleep, length: before.saturating_sub(began) })
    }

    /// The age of the live session, if it is time to write it down.
    pub fn beat(&mut self, now: Duration) -> Option<Duration> {
        let age = self.age(now).filter(|_| self.next_beat <= now)?;
        self.next_beat = now + BEAT;
        Some(age)
    }

    /// The age of the live session, if it has passed a checkpoint since this was asked last.
    pub fn checkpoint(&mut self, now: Duration) -> Option<Duration> {
        let age = self.age(now)?;
        let passed = CHECKPOINTS.partition_point(|checkpoint| *checkpoint <= age);
        (std::mem::replace(&mut self.checkpoints, passed) < passed).then_some(age)
    }

    /// Takes in what happened at `now` (time since the agent started, suspend-aware); gives what changes.
    pub fn handle(&mut self, now: Duration, input: SessionInput) -> Option<SessionChange> {
        let cause = match input {
            SessionInput::Owner(report) => {
                self.owner = report;
                self.owner_cause()
            }
            SessionInput::Blocked { cause, reason } => {
                self.blocks.insert(cause, reason);
                Some(cause)
            }
            SessionInput::Unblocked { cause } => {
                self.blocks.remove(&cause);
                None
            }
            SessionInput::Leaving { cause } => {
                self.leaving.get_or_insert(cause);
                Some(cause)
            }
            SessionInput::Tick => None,
        };
        match (self.began, cause) {
            (Some(began), Some(cause)) => {
                self.began = None;
                Some(SessionChange::Ended { cause, length: now.saturating_sub(began) })
            }
            (None, _) if self.may_serve() && self.awake_at <= now => {
                self.began = Some(now);
                self.next_beat = now + BEAT;
                self.checkpoints = 0;
                Some(SessionChange::Began)
            }
            (Some(_) | None, _) => None,
        }
    }

    /// Whether a session lasts.
    pub fn is_serving(&self) -> bool {
        self.began.is_some()
    }

    /// How long the live session has lasted; none outside a session.
    pub fn age(&self, now: Duration) -> Option<Duration> {
        self.began.map(|began| now.saturating_sub(began))
    }

    /// Why this machine serves or does not: every reason that holds, since people want to know which rule blocks.
    pub fn reasons(&self) -> Vec<String> {
        let leaving = self.leaving.map(|_| "the agent is stopping".to_owned());
        let blocks = self.blocks.values().cloned();
        let owner = (self.owner_cause().is_some() || self.began.is_some()).then(|| self.owner.reason.clone());
        leaving.into_iter().chain(blocks).chain(owner).collect()
    }

    fn may_serve(&self) -> bool {
        self.leaving.is_none() && self.blocks.is_empty() && self.owner_cause().is_none()
    }

    /// Why the owner's state forbids a session; none where it permits one.
    fn owner_cause(&self) -> Option<DepartureCause> {
        match self.owner.state {
            OwnerState::Away { .. } => None,
            OwnerState::Present => Some(DepartureCause::OwnerReturned),
            OwnerState::Unknown => Some(DepartureCause::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use DepartureCause::{Battery, Network, OwnerReturned, Shutdown, Unknown};
    use SessionChange::{Began, Ended};

    use super::*;

    fn owner(state: OwnerState) -> SessionInput {
        SessionInput::Owner(OwnerReport { state, reason: format!("{state:?}") })
    }

    fn away() -> SessionInput {
        owner(OwnerState::Away { idle_for: Duration::ZERO })
    }

    fn blocked(cause: DepartureCause) -> SessionInput {
        SessionInput::Blocked { cause, reason: format!("{cause:?}") }
    }

    fn ended(cause: DepartureCause, length_s: u64) -> SessionChange {
        Ended { cause, length: Duration::from_secs(length_s) }
    }

    /// Feeds (second, input) and compares what changes at each.
    fn check(steps: Vec<(u64, SessionInput, Option<SessionChange>)>) {
        let mut tracker = SessionTracker::default();
        for (at_s, input, expected) in steps {
            let text = format!("{input:?} at {at_s}");
            assert_eq!(tracker.handle(Duration::from_secs(at_s), input), expected, "{text}");
            assert!(!tracker.reasons().is_empty(), "no reason after {text}");
        }
    }

    #[test]
    fn sessions_follow_the_owner() {
        check(vec![
            (0, owner(OwnerState::Unknown), None),
            (1, away(), Some(Began)),
            (2, away(), None),
            (11, owner(OwnerState::Present), Some(ended(OwnerReturned, 10))),
            (12, owner(OwnerState::Present), None),
            (20, away(), Some(Began)),
            (25, owner(OwnerState::Unknown), Some(ended(Unknown, 5))),
        ]);
    }

    #[test]
    fn every_block_must_be_lifted_before_a_session_begins() {
        check(vec![
            (0, blocked(Battery), None),
            (1, away(), None),
            (2, blocked(Network), None),
            (3, SessionInput::Unblocked { cause: Battery }, None),
            (4, SessionInput::Unblocked { cause: Network }, Some(Began)),
            (9, blocked(Battery), Some(ended(Battery, 5))),
            (10, owner(OwnerState::Present), None),
            (11, SessionInput::Unblocked { cause: Battery }, None),
            (12, away(), Some(Began)),
        ]);
    }

    #[test]
    fn nothing_begins_once_the_agent_is_leaving() {
        check(vec![
            (0, away(), Some(Began)),
            (7, SessionInput::Leaving { cause: Shutdown }, Some(ended(Shutdown, 7))),
            (8, away(), None),
            (9, SessionInput::Leaving { cause: Shutdown }, None),
        ]);
    }

    #[test]
    fn age_counts_from_the_beginning_of_the_session() {
        let mut tracker = SessionTracker::default();
        assert_eq!(tracker.age(Duration::from_secs(5)), None);
        tracker.handle(Duration::from_secs(5), away());
        assert!(tracker.is_serving());
        assert_eq!(tracker.age(Duration::from_secs(68)), Some(Duration::from_secs(63)));
        assert_eq!(tracker.reasons(), ["Away { idle_for: 0ns }"]);
    }

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn a_machine_that_slept_ends_its_session_as_it_fell_asleep_and_begins_another() {
        let mut tracker = SessionTracker::default();
        tracker.handle(seconds(1), away());
        assert_eq!((tracker.wake(seconds(7)), tracker.wake(seconds(10))), (None, None));
        assert_eq!(tracker.wake(seconds(3610)), Some(ended(DepartureCause::Sleep, 9)));
        assert!(!tracker.is_serving());
        assert_eq!(tracker.handle(seconds(3612), SessionInput::Tick), None);
        assert_eq!(tracker.handle(seconds(3613), SessionInput::Tick), Some(Began));
        assert_eq!(tracker.handle(seconds(3623), owner(OwnerState::Present)), Some(ended(OwnerReturned, 10)));
        assert_eq!((tracker.wake(seconds(9000)), tracker.handle(seconds(9000), SessionInput::Tick)), (None, None));
    }

    #[test]
    fn an_owner_who_woke_the_machine_is_seen_before_a_session_begins() {
        let mut tracker = SessionTracker::default();
        tracker.wake(seconds(1));
        tracker.handle(seconds(1), away());
        assert_eq!(tracker.wake(seconds(100)), Some(ended(DepartureCause::Sleep, 0)));
        assert_eq!(tracker.handle(seconds(100), owner(OwnerState::Present)), None);
        assert_eq!(tracker.handle(seconds(101), SessionInput::Tick), None);
    }

    #[test]
    fn ages_are_written_down_and_checkpoints_are_told_once() {
        let mut tracker = SessionTracker::default();
        assert_eq!((tracker.beat(seconds(1)), tracker.checkpoint(seconds(1))), (None, None));
        tracker.handle(seconds(10), away());
        let beats: Vec<u64> = (10..60).filter(|s| tracker.beat(seconds(*s)).is_some()).collect();
        assert_eq!(beats, [25, 40, 55]);
        let passed: Vec<u64> = (10..1000).filter(|s| tracker.checkpoint(seconds(*s)).is_some()).collect();
        assert_eq!(passed, [70, 310, 910]);
        tracker.handle(seconds(1000), owner(OwnerState::Present));
        tracker.handle(seconds(2000), away());
        assert_eq!(tracker.checkpoint(seconds(2059)), None);
        assert_eq!(tracker.checkpoint(seconds(2400)), Some(seconds(400)), "two at once are told as one");
    }
}
