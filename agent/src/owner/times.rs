//! The clocks that the detector reads.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since the machine started, sleep included.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn since_boot() -> Duration {
    read(rustix::time::ClockId::Boottime)
}

/// Elsewhere the standard library's clock counts sleep, or is the best there is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn since_boot() -> Duration {
    static BEGAN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    BEGAN.elapsed()
}

/// How long the machine has slept since it started.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn asleep() -> Duration {
    // In this order, so that what passes between the two does not look like sleep.
    let boot = since_boot();
    boot.saturating_sub(read(rustix::time::ClockId::Monotonic))
}

/// Not known here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn asleep() -> Duration {
    Duration::ZERO
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn read(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// An instant of the monotonic clock (which stands still in sleep) on our own.
#[cfg(target_os = "linux")]
pub(super) fn of_monotonic(then: Duration) -> Duration {
    let ago = read(rustix::time::ClockId::Monotonic).saturating_sub(then);
    since_boot().saturating_sub(ago)
}

/// An instant of the wall clock on our own; one in the future reads as now.
pub(super) fn of_wall(then: Duration) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_boot().saturating_sub(now.saturating_sub(then))
}
