//! Counters of the time without input that tell nothing by themselves: asked often while nobody is there, and else only when
//! somebody could have left.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use super::keep::{Outlet, Trouble};
use crate::owner::sighting::Sighting;
use crate::owner::times::since_boot;

/// How often a counter that is cheap to read is asked while nobody is there: input must stop the engine within 100 ms.
pub(super) const CHEAP_EVERY: Duration = Duration::from_millis(50);

/// A counter of the time without input.
pub(super) trait Counter {
    /// How often it is asked while nobody is there.
    const EVERY: Duration = CHEAP_EVERY;

    /// The time since the last input.
    fn idle(&mut self) -> impl Future<Output = Result<Duration, Trouble>> + Send;
}

/// Tells what the counter says, until it cannot be asked any more.
pub(super) async fn follow<C: Counter>(out: &Outlet, mut counter: C) -> Result<Infallible, Trouble> {
    let mut was_quiet = None;
    loop {
        let idle = counter.idle().await?;
        let is_quiet = idle >= out.alarm;
        if was_quiet.replace(is_quiet) != Some(is_quiet) {
            let since = since_boot().saturating_sub(idle);
            out.say(if is_quiet { Sighting::Quiet { since } } else { Sighting::Active }).await;
        }
        sleep(if is_quiet { C::EVERY } else { out.alarm.saturating_sub(idle).max(C::EVERY) }).await;
    }
}
