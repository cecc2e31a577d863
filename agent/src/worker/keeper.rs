//! Gives the engine's memory back: at once when the gate shuts, and after a while without work.

use std::time::Duration;

use idlewild_engine::{Engine, EnginePhase};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::info;

use super::gate::{Gate, open, shut};

/// Runs until the driver is gone. `jobs` counts those that run; `idle_stop` of zero keeps the engine for ever.
pub(super) async fn keep(
    engine: Engine,
    mut gate: watch::Receiver<Gate>,
    mut jobs: watch::Receiver<u32>,
    idle_stop: Duration,
) {
    while open(&mut gate).await {
        tokio::select! {
            shut = shut(&mut gate) => info!(cause = ?shut.cause, "engine stops"),
            () = idle(&mut jobs, idle_stop) => info!(after_s = idle_stop.as_secs(), "engine stops without work"),
        }
        if engine.stats().phase != EnginePhase::Absent {
            engine.stop().await;
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
