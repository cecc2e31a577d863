//! The agent's clock: time since it started, the time asleep included.
//!
//! A laptop that slept for an hour must find its view an hour old; the usual monotonic clock of Linux stands still
//! meanwhile.

use std::time::Duration;

/// Counts from its making. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    began: Duration,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { began: since_boot() }
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        since_boot().saturating_sub(self.began)
    }

    /// Waits until the clock reads `at`, as long as the machine stays awake.
    pub async fn sleep_until(&self, at: Duration) {
        tokio::time::sleep(at.saturating_sub(self.now())).await;
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Elsewhere the monotonic clock of the standard library counts sleep (macOS, Windows) or is the best there is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    static BEGAN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    BEGAN.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_starts_at_zero_and_rises() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first < Duration::from_secs(5));
        assert!(clock.now() >= first);
    }
}
