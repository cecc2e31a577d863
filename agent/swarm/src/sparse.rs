//! Log lines that strangers can cause as often as they like.

use core::time::Duration;
use std::time::Instant;

/// Between two such lines.
const EVERY: Duration = Duration::from_mins(1);

/// Lets one line through a minute, and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Sparse {
    said_at: Option<Instant>,
    left_out: u64,
}

impl Sparse {
    /// How many lines were left out before this one; none where it is left out too.
    pub(crate) fn may_say(&mut self, now: Instant) -> Option<u64> {
        if self.said_at.is_some_and(|at| now.saturating_duration_since(at) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.said_at = Some(now);
        Some(core::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute_that_counts_the_others() {
        let (mut sparse, start) = (Sparse::default(), Instant::now());
        let said: Vec<u64> = (0..150_000).filter_map(|ms| sparse.may_say(start + Duration::from_millis(ms))).collect();
        assert_eq!(said, [0, 59_999, 59_999]);
    }
}
