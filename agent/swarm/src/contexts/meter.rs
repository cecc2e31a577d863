//! How fast a context comes, and when to say so. Pure: time is an argument.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

/// Over how long [`Recent`] looks back.
const LOOK_BACK: Duration = Duration::from_secs(3);

/// Between two marks of [`Recent`].
const MARK_INTERVAL: Duration = Duration::from_millis(100);

/// Before so long, a rate is chance.
const MIN_SPAN: Duration = Duration::from_millis(500);

/// Bytes from which on a transfer says something about a link.
const MIN_BYTES: u64 = 1024 * 1024;

/// Bytes at the beginning of a stream that do not count: the transfer is still getting under way.
const WARM_UP_BYTES: u64 = 256 * 1024;

/// Between two reports of what has come.
const REPORT_INTERVAL: Duration = Duration::from_millis(4);

/// Bytes a second over the last seconds.
#[derive(Debug)]
pub(super) struct Recent {
    /// When, and how many bytes had come by then. The first is the oldest that counts.
    marks: VecDeque<(Instant, u64)>,
}

impl Recent {
    pub(super) fn new(now: Instant) -> Self {
        Self { marks: VecDeque::from([(now, 0)]) }
    }

    /// What was before tells nothing.
    pub(super) fn begin_anew(&mut self, total: u64, now: Instant) {
        self.marks.clear();
        self.marks.push_back((now, total));
    }

    /// So many bytes have come in all.
    pub(super) fn mark(&mut self, total: u64, now: Instant) {
        if self.marks.back().is_none_or(|(at, _)| now >= *at + MARK_INTERVAL) {
            self.marks.push_back((now, total));
        }
        // The one before the span is kept: the span begins with it.
        while self.marks.get(1).is_some_and(|(at, _)| now >= *at + LOOK_BACK) {
            self.marks.pop_front();
        }
    }

    /// Bytes a second; none before there was time to tell.
    pub(super) fn bytes_per_s(&self, total: u64, now: Instant) -> Option<u64> {
        let within = self.marks.iter().find(|(at, _)| now < *at + LOOK_BACK).or(self.marks.back())?;
        let (at, before) = *within;
        let span = now.saturating_duration_since(at);
        (span >= MIN_SPAN).then(|| per_second(total.saturating_sub(before), span))
    }
}

/// What a transfer says about the link: bytes that came one after the other, and the time they took. Pauses of either agent
/// do not count.
#[derive(Debug, Default)]
pub(super) struct LinkMeter {
    /// All bytes, to know when the stream is under way.
    total: u64,
    bytes: u64,
    elapsed: Duration,
    /// The last bytes of a run came then.
    run: Option<Instant>,
}

impl LinkMeter {
    /// More bytes came.
    pub(super) fn came(&mut self, bytes: u64, now: Instant) {
        if let Some(last) = self.run
            && self.total >= WARM_UP_BYTES
        {
            self.bytes += bytes;
            self.elapsed += now.saturating_duration_since(last);
        }
        self.run = Some(now);
        self.total += bytes;
    }

    /// What comes next, comes after a pause that is not the link's.
    pub(super) fn interrupt(&mut self) {
        self.run = None;
    }

    /// Bytes a second, once there were enough of them; counting begins anew.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.bytes < MIN_BYTES || self.elapsed.is_zero() {
            return None;
        }
        let rate = per_second(self.bytes, self.elapsed);
        (self.bytes, self.elapsed) = (0, Duration::ZERO);
        Some(rate)
    }
}

/// When to tell the holder how much has come: soon, but not for every packet.
#[derive(Debug)]
pub(super) struct Reports {
    told: u64,
    told_at: Instant,
}

impl Reports {
    pub(super) fn new(now: Instant) -> Self {
        Self { told: 0, told_at: now }
    }

    /// When to tell; none while there is nothing new.
    pub(super) fn due_at(&self, total: u64) -> Option<Instant> {
        (total > self.told).then(|| self.told_at + REPORT_INTERVAL)
    }

    pub(super) fn told(&mut self, total: u64, now: Instant) {
        (self.told, self.told_at) = (total, now);
    }
}

fn per_second(bytes: u64, span: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000 / span.as_micros().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_rate_of_the_last_seconds_forgets_what_was_before() {
        let start = Instant::now();
        let mut recent = Recent::new(start);
        assert_eq!(recent.bytes_per_s(5_000, start + 400 * MS), None);
        let mut total = 0;
        for ms in 0..10_000 {
            total += if ms < 5_000 { 1_000 } else { 100 };
            recent.mark(total, start + ms * MS);
        }
        let rate = recent.bytes_per_s(total, start + 10_000 * MS).unwrap();
        assert!((99_000..102_000).contains(&rate), "{rate}");
        let silent = recent.bytes_per_s(total, start + 12_000 * MS).unwrap();
        assert!(silent < 50_000, "{silent}");
        assert!(recent.marks.len() < 40);
        recent.begin_anew(total, start + 12_000 * MS);
        assert_eq!(recent.bytes_per_s(total, start + 12_400 * MS), None);
        assert_eq!(recent.bytes_per_s(total + 1_000, start + 13_000 * MS), Some(1_000));
    }

    #[test]
    fn a_link_is_measured_by_what_came_without_a_pause_and_not_by_a_little() {
        let start = Instant::now();
        let mut meter = LinkMeter::default();
        let mut now = start;
        for chunk in 0..4 {
            // The holder's engine takes a second for each chunk.
            now += 1_000 * MS;
            meter.interrupt();
            for _ in 0..100 {
                meter.came(10_000, now);
                now += MS;
            }
            assert_eq!(meter.take().is_some(), chunk == 1 || chunk == 3, "chunk {chunk}");
        }
    }

    #[test]
    fn a_measured_rate_is_the_links() {
        let start = Instant::now();
        let mut meter = LinkMeter::default();
        for ms in 0..1_000 {
            meter.came(2_500, start + ms * MS);
        }
        assert_eq!(meter.take(), Some(2_500_000));
        assert_eq!(meter.take(), None);
    }

    #[test]
    fn what_has_come_is_told_soon_and_once() {
        let start = Instant::now();
        let mut reports = Reports::new(start);
        assert_eq!(reports.due_at(0), None);
        assert_eq!(reports.due_at(1), Some(start + REPORT_INTERVAL));
        reports.told(1, start + 5 * MS);
        assert_eq!(reports.due_at(1), None);
        assert_eq!(reports.due_at(2), Some(start + 5 * MS + REPORT_INTERVAL));
    }
}
