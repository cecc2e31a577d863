//! How long a job waits for others. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// Longest wait of a worker that takes over for the last tokens of its KV cache, from a holder that stands still: several
/// round trips of a home's network and two copies. Of a holder that is frozen the client feels no more than this.
const LAST_FEED_MAX: Duration = Duration::from_millis(60);

/// Longest time that a worker which was told to stop keeps its context while its origin says nothing. An origin hands over,
/// or withdraws the stop, within seconds.
const PARKED_MAX: Duration = Duration::from_secs(30);

/// The bounds. Tests have others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// With the last tokens of a KV cache.
    pub(super) last_feed: Duration,
    /// Of a worker that stands still, with its origin.
    pub(super) parked: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { last_feed: LAST_FEED_MAX, parked: PARKED_MAX }
    }
}

impl Patience {
    /// How long it is worth waiting for `lag` tokens: never longer than it takes to make them.
    pub(super) fn with_last_feed(self, lag: u32, prefill_tps: f32) -> Duration {
        // A rate that is not known yet, or is no rate, says nothing.
        let made = Duration::try_from_secs_f32(lag as f32 / prefill_tps);
        made.map_or(self.last_feed, |made| made.min(self.last_feed))
    }
}

/// Where a worker stands still at its origin's word, and since when nothing was heard of either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standstill {
    /// The last token that it is to draw.
    stop_after: Option<u32>,
    /// The token that it would draw next.
    next_index: u32,
    heard: Instant,
}

impl Standstill {
    /// Of one that draws the token of `next_index` first.
    pub(super) fn new(now: Instant, next_index: u32) -> Self {
        Self { stop_after: None, next_index, heard: now }
    }

    /// The origin has said something.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The origin says where to stop; none: nowhere.
    pub(super) fn stop_after(&mut self, index: Option<u32>) {
        self.stop_after = index;
    }

    /// It draws from this token on.
    pub(super) fn begins(&mut self, now: Instant, from_index: u32) {
        (self.next_index, self.heard) = (from_index, now);
    }

    /// A token was drawn.
    pub(super) fn drew(&mut self, now: Instant, index: u32) {
        (self.next_index, self.heard) = (index.saturating_add(1), now);
    }

    /// When a worker that stands still has waited for so long; none while it does not.
    pub(super) fn until(&self, patience: Duration) -> Option<Instant> {
        self.stop_after.filter(|index| self.next_index > *index).map(|_| self.heard + patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tokens_are_waited_for_no_longer_than_they_take_to_make() {
        let cases = [
            (16, 60.0, 60),
            (3, 60.0, 50),
            (5, 500.0, 10),
            (0, 60.0, 0),
            (16, 0.0, 60),
            (16, f32::NAN, 60),
            (16, -1.0, 60),
            (16, f32::INFINITY, 0),
        ];
        for (lag, prefill_tps, expected_ms) in cases {
            let waits = Patience::default().with_last_feed(lag, prefill_tps);
            assert_eq!(waits.as_millis(), expected_ms, "{lag} {prefill_tps}");
        }
    }

    #[test]
    fn only_a_worker_that_stands_still_in_silence_is_out_of_patience() {
        let second = Duration::from_secs(1);
        let began = Instant::now();
        let at = |seconds: u32| began + second * seconds;
        let mut still = Standstill::new(began, 5);
        assert_eq!(still.until(second * 30), None, "nobody stopped it");
        still.stop_after(Some(7));
        for index in 5..7 {
            still.drew(at(index), index);
            assert_eq!(still.until(second * 30), None, "it has tokens to draw");
        }
        still.drew(at(9), 7);
        assert_eq!(still.until(second * 30), Some(at(39)));
        still.heard(at(20));
        assert_eq!(still.until(second * 30), Some(at(50)), "any word counts");
        still.stop_after(None);
        assert_eq!(still.until(second * 30), None, "it goes on");
        still.stop_after(Some(3));
        assert_eq!(still.until(second * 30), Some(at(50)), "it is further already");
        still.begins(at(30), 3);
        assert_eq!(still.until(second * 30), None);
    }
}
