//! How far a worker is with the prompt, as the client hears it: only what is news, and not without pause. Pure.

use std::time::Duration;

use idlewild_coordinator::Now;
use idlewild_protocol::Epoch;

/// Between two words about it: nobody reads faster, whatever a worker says.
const GAP: Duration = Duration::from_millis(20);

/// What the client was told last.
#[derive(Debug, Default)]
pub(super) struct ReadingNews {
    told: Option<(Now, Epoch, u32)>,
}

impl ReadingNews {
    /// Whether to tell that the worker of `epoch` has read `done` tokens.
    pub(super) fn is_news(&mut self, now: Now, epoch: Epoch, done: u32) -> bool {
        let is_news = self.told.is_none_or(|(at, of, before)| {
            now.saturating_sub(at) >= GAP && if of == epoch { done > before } else { of < epoch }
        });
        if is_news {
            self.told = Some((now, epoch, done));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Now {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_what_has_grown_is_told_and_no_flood_of_it() {
        let mut news = ReadingNews::default();
        let told: Vec<u32> = (0..1000).filter(|done| news.is_news(ms(0), Epoch(1), *done)).collect();
        assert_eq!(told, [0]);
        assert!(!news.is_news(ms(100), Epoch(1), 0), "that is known");
        assert!(news.is_news(ms(100), Epoch(1), 5));
        assert!(news.is_news(ms(200), Epoch(2), 0), "another worker begins anew");
        let told = (0..1000).filter(|at| news.is_news(ms(300 + at), Epoch(2), 1 + *at as u32)).count();
        assert_eq!(told, 50, "in a second");
    }
}
