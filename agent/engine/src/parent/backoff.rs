//! How long to wait before a child is started again, and when to stop trying.

use std::time::Duration;

/// The pause after the first death.
const FIRST: Duration = Duration::from_millis(200);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(20);

/// Deaths in a row after which the engine gives up: about a minute of trying.
const DEATHS_MAX: u32 = 8;

/// A child that was ready for this long was well, whatever it died of then.
pub(super) const WELL_AFTER: Duration = Duration::from_secs(30);

/// Counts deaths in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    deaths: u32,
}

impl Backoff {
    /// The child proved to be well: it finished a sequence, or was ready for [`WELL_AFTER`].
    pub(super) fn reset(&mut self) {
        self.deaths = 0;
    }

    /// The child died: how long to wait, or none where it has died too often. The pause doubles with every death.
    pub(super) fn died(&mut self) -> Option<Duration> {
        self.deaths = self.deaths.saturating_add(1);
        if self.deaths > DEATHS_MAX {
            return None;
        }
        Some((FIRST * 2_u32.pow(self.deaths - 1)).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let mut backoff = Backoff::default();
        let pauses_ms: Vec<_> = (0..10).map(|_| backoff.died().map(|pause| pause.as_millis())).collect();
        let expected = [200, 400, 800, 1600, 3200, 6400, 12_800, 20_000].map(Some);
        assert_eq!(pauses_ms[..8], expected);
        assert_eq!(pauses_ms[8..], [None, None]);
        backoff.reset();
        assert_eq!(backoff.died(), Some(FIRST));
    }
}
