//! How many positions a chunk has: as many as the link carries in a moment. Pure: time is an argument.

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

/// Bytes of a chunk: exported within a millisecond or two. A holder gives one between two steps, and on a long context a step
/// takes 50 ms: chunks of 1.5 MB filled a quarter of a link of 1 Gbit/s.
const CHUNK_BYTES: u32 = 6_000_000;

/// Positions of the first chunk over a link of which nothing is known: it says something soon on any.
const CHUNK_TOKENS_UNKNOWN: u32 = 16;

/// Seconds that a chunk may take on a slow link: what is under way when the two ends meet is of no use.
const CHUNK_S: f64 = 0.1;

/// The same in steps of a holder that decodes and makes long ones: it gives a chunk between two of them, so that the wait is
/// not the link's.
const CHUNK_STEPS: f64 = 2.0;

/// Positions of a chunk, whatever their size.
const CHUNK_TOKENS: RangeInclusive<u32> = 8..=256;

/// The size of the next chunk, by what the last ones took.
#[derive(Debug)]
pub(super) struct Sizes {
    tokens: u32,
    most: u32,
    /// Seconds that a chunk may take.
    chunk_s: f64,
    /// The last chunk made it larger: the link carries more than what has come shows.
    grows: bool,
    /// What comes next has been on its way since then, as far as the link is concerned.
    since: Instant,
}

impl Sizes {
    /// For a link that is believed to carry `kv_tps` tokens a second, if anything is, from a holder of such steps.
    pub(super) fn new(now: Instant, kv_bytes_per_token: u32, (kv_tps, step): (Option<f64>, Duration)) -> Self {
        let by_bytes = CHUNK_BYTES / kv_bytes_per_token.max(1);
        let most = by_bytes.clamp(*CHUNK_TOKENS.start(), *CHUNK_TOKENS.end());
        let by_time = kv_tps.map_or(CHUNK_TOKENS_UNKNOWN, |tps| (tps * CHUNK_S) as u32);
        let chunk_s = CHUNK_S.max(CHUNK_STEPS * step.as_secs_f64());
        Self { tokens: by_time.clamp(*CHUNK_TOKENS.start(), most), most, chunk_s, grows: false, since: now }
    }

    /// Positions of the next chunk.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Whether what has come says less than what the link carries.
    pub(super) fn grows(&self) -> bool {
        self.grows
    }

    /// Something is asked for while nothing was under way.
    pub(super) fn asked(&mut self, now: Instant) {
        self.since = now;
    }

    /// A chunk of so many positions has come. One that is smaller than the next would be says little: it is a feed, or was
    /// asked for when nothing was known.
    pub(super) fn came(&mut self, now: Instant, tokens: u32) {
        let took = now.saturating_duration_since(self.since).max(Duration::from_millis(1));
        self.since = now;
        if tokens >= self.tokens {
            let carried = (f64::from(tokens) * self.chunk_s / took.as_secs_f64()) as u32;
            let next = carried.clamp(self.tokens / 2, self.tokens.saturating_mul(2));
            let next = next.clamp(*CHUNK_TOKENS.start(), self.most);
            self.grows = next > self.tokens;
            self.tokens = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The size after so many chunks over a link that carries so many tokens a second.
    fn settled(start: Option<f64>, tps: u32, chunks: u32) -> u32 {
        let mut now = Instant::now();
        let mut sizes = Sizes::new(now, 1000, (start, Duration::ZERO));
        for _ in 0..chunks {
            let tokens = sizes.tokens();
            now += Duration::from_secs(1) * tokens / tps;
            sizes.came(now, tokens);
        }
        sizes.tokens()
    }

    #[test]
    fn a_first_chunk_is_small_and_the_later_ones_are_what_the_link_carries_in_a_moment() {
        assert_eq!(settled(None, 1, 0), CHUNK_TOKENS_UNKNOWN);
        assert_eq!(settled(None, 100_000, 4), 256);
        assert_eq!(settled(Some(100_000.0), 20, 5), 8, "a link that was thought to be fast");
        assert!((39..=41).contains(&settled(None, 400, 4)));
    }

    #[test]
    fn the_steps_of_a_slow_holder_do_not_make_its_chunks_small() {
        let (mut now, step) = (Instant::now(), 500 * MS);
        let mut sizes = Sizes::new(now, 1000, (None, step));
        for expected in [32, 64, 128, 256, 256] {
            now += step;
            sizes.came(now, sizes.tokens());
            assert_eq!(sizes.tokens(), expected);
        }
    }

    #[test]
    fn no_chunk_is_larger_than_may_be_sent_and_feeds_say_nothing() {
        let now = Instant::now();
        let mut sizes = Sizes::new(now, 100_000, (Some(1e9), Duration::ZERO));
        assert_eq!(sizes.tokens(), 60);
        sizes.came(now + 500 * MS, 16);
        assert_eq!(sizes.tokens(), 60);
        sizes.asked(now + 9_000 * MS);
        sizes.came(now + 9_001 * MS, 60);
        assert_eq!(sizes.tokens(), 60, "a pause is not the link's");
        assert_eq!(Sizes::new(now, 10_000_000, (None, Duration::ZERO)).tokens(), 8);
    }
}
