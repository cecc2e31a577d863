//! Waiting for a level, with a deadline: the only way in which tests wait.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Between two looks. Short against every promise that is tested (the shortest is 100 ms), long against what a look costs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until `look` gives something; gives it and how long that took. Fails at the deadline, naming `what` was awaited.
///
/// An `Err` of `look` ends the wait at once: it is for what can no longer come right.
pub fn within<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<(T, Duration)> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look()? {
            return Ok((seen, start.elapsed()));
        }
        if start.elapsed() >= deadline {
            bail!("waited {deadline:?} for {what}");
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Looks until `holds`; says how long that took.
pub fn eventually(deadline: Duration, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<Duration> {
    within(deadline, what, || Ok(holds()?.then_some(()))).map(|((), took)| took)
}
