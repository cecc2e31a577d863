//! Attempts that wait longer after each failure. Pure: time is an argument.

use core::time::Duration;
use std::time::Instant;

/// The first wait after a failure.
pub(crate) const MIN_BACKOFF: Duration = Duration::from_millis(500);

/// The longest.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Attempts of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempts {
    failures: u32,
    next: Instant,
    in_flight: bool,
}

impl Attempts {
    /// None was made; the first is due at `next`.
    pub(crate) fn at(next: Instant) -> Self {
        Self { failures: 0, next, in_flight: false }
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// How many failed since the last restart.
    pub(crate) fn failures(&self) -> usize {
        self.failures as usize
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.in_flight && now >= self.next
    }

    /// One is being made.
    pub(crate) fn begin(&mut self) {
        self.in_flight = true;
    }

    /// It led to a connection, which has yet to prove its worth.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.in_flight = false;
        self.postpone(now);
    }

    /// Another attempt is of no use for a while.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.next = now + MAX_BACKOFF;
    }

    /// It failed. `spread` in 0..1 keeps those that failed together from trying together.
    pub(crate) fn failed(&mut self, now: Instant, spread: f64) {
        let wait = MIN_BACKOFF.saturating_mul(1 << self.failures.min(6)).min(MAX_BACKOFF);
        *self = Self {
            failures: self.failures.saturating_add(1),
            next: now + wait.mul_f64(0.8 + 0.4 * spread),
            in_flight: false,
        };
    }

    /// Something changed: what failed before does not count.
    pub(crate) fn restart(&mut self, next: Instant) {
        self.failures = 0;
        self.next = next;
    }
}
