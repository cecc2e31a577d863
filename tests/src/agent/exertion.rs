//! When an engine computed last, as the kernel counts its processor time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::process::run_time;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What an engine that has stopped may still do: hear that it is to stop, and say so.
const NEARLY_NOTHING: Duration = Duration::from_millis(1);

/// What one thread had used of the processor, each time that it was looked at.
#[derive(Debug, Clone, Default)]
pub struct Exertion(Vec<(Instant, Duration)>);

impl Exertion {
    /// Looks at the first thread of a process, which computes in an engine, until it is over or the process is gone.
    pub fn watch(pid: u32, is_over: &AtomicBool) -> Self {
        let mut looks = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let Ok(used) = run_time(pid) else { break };
            looks.push((Instant::now(), used));
            thread::sleep(LOOK_EVERY);
        }
        Self(looks)
    }

    /// Whether it computed at all before `at`.
    pub fn was_busy_before(&self, at: Instant) -> bool {
        let mut before = self.0.iter().filter(|(looked, _)| *looked <= at).map(|(_, used)| *used);
        let first = before.next();
        first.zip(before.next_back()).is_some_and(|(first, last)| last > first + NEARLY_NOTHING)
    }

    /// How long after `since` it had used all but nearly nothing of what it used at all; none where it was never looked at.
    pub fn ended_after(&self, since: Instant) -> Option<Duration> {
        let (_, all) = self.0.last()?;
        let (at, _) = self.0.iter().find(|(_, used)| *used + NEARLY_NOTHING >= *all)?;
        Some(at.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_where_the_last_of_the_time_was_used() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let looks = [(0, 100), (10, 110), (20, 120), (30, 125), (40, 125), (90, 126)];
        let exertion = Exertion(looks.map(|(at, used)| (start + ms(at), ms(used))).to_vec());
        assert_eq!(exertion.ended_after(start + ms(5)), Some(ms(25)));
        assert_eq!(exertion.ended_after(start + ms(60)), Some(ms(0)));
        assert!(exertion.was_busy_before(start + ms(20)) && !exertion.was_busy_before(start + ms(5)));
        assert_eq!(Exertion::default().ended_after(start), None);
    }
}
