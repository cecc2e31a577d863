//! Gives the machine back to its owner when the gate shuts: the processor at once, the memory as soon as no context in it is
//! wanted any more or the notice ends. And gives the memory back after a while without work.

use std::time::Duration;

use idlewild_engine::{Engine, EnginePhase};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::gate::{Gate, Shut, hurried, open, shut};

/// Runs until the driver is gone. `jobs` counts those that run; `idle_stop` of zero keeps the engine for ever.
pub(super) async fn keep(
    engine: Engine,
    mut gate: watch::Receiver<Gate>,
    mut jobs: watch::Receiver<u32>,
    idle_stop: Duration,
) {
    while open(&mut gate).await {
        engine.halt(false);
        let shut = tokio::select! {
            shut = shut(&mut gate) => Some(shut),
            () = idle(&mut jobs, idle_stop) => None,
        };
        if let Some(Shut { cause, notice_ms }) = shut {
            info!(?cause, notice_ms, "engine stops computing");
            engine.halt(true);
            let notice = Duration::from_millis(u64::from(notice_ms));
            let mut again = gate.clone();
            tokio::select! {
                // Without jobs no context is wanted; a worker that is gone has none.
                _ = timeout(notice, jobs.wait_for(|running| *running == 0)) => {}
                () = hurried(&mut again) => info!("the memory is wanted at once"),
                is_open = open(&mut gate) => if is_open { continue },
            }
        }
        if engine.stats().phase != EnginePhase::Absent {
            engine.stop().await;
            info!("engine gone");
        }
    }
    engine.stop().await;
}

/// Waits until no job has run for `idle_stop`.
async fn idle(jobs: &mut watch::Receiver<u32>, idle_stop: Duration) {
    if idle_stop.is_zero() {
        std::future::pending::<()>().await;
    }
    loop {
        let is_idle = *jobs.borrow_and_update() == 0;
        tokio::select! {
            changed = jobs.changed() => if changed.is_err() { std::future::pending::<()>().await },
            () = sleep(idle_stop), if is_idle => return,
        }
    }
}
