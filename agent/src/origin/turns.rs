//! When it is time's turn, where what the streams bring never ends. Pure.
//!
//! After a pause of this machine what a worker did say counts before its silence: so events come before a deadline that has
//! passed. But no more of them than can have waited: whoever talks without pause puts no deadline off, its own or another's.

use idlewild_coordinator::Now;

use super::pump::NEWS;
use super::streams::OPEN_MAX;

/// Events that may have waited when a deadline passed: full queues of all streams.
const EVENTS: usize = OPEN_MAX * NEWS;

/// Counts what was heard since a deadline passed.
#[derive(Debug, Default)]
pub(super) struct Turns {
    heard: usize,
}

impl Turns {
    /// Whether the deadline `due` is to be looked at `now`, whatever else there is. To be asked once before each event.
    pub(super) fn is_times(&mut self, now: Now, due: Option<Now>) -> bool {
        if due.is_none_or(|due| due > now) {
            self.heard = 0;
            return false;
        }
        self.heard = self.heard.saturating_add(1);
        self.heard > EVENTS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DUE: Now = Duration::from_secs(5);

    #[test]
    fn what_can_have_waited_comes_before_a_deadline_and_nothing_more_does() {
        let mut turns = Turns::default();
        let before = Duration::from_millis(4999);
        assert!((0..10 * EVENTS).all(|_| !turns.is_times(before, Some(DUE))), "it is not due yet");
        assert!((0..EVENTS).all(|_| !turns.is_times(DUE, Some(DUE))));
        assert!(turns.is_times(DUE, Some(DUE)));
        assert!(turns.is_times(DUE, Some(DUE)), "until the deadline is another");
        assert!(!turns.is_times(DUE, Some(DUE + Duration::from_secs(1))));
        assert!(!turns.is_times(DUE, None));
        assert!((0..EVENTS).all(|_| !turns.is_times(DUE, Some(DUE))), "each deadline has its own");
    }
}
