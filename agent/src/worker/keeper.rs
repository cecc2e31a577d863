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
        if shut.is_none() && engine.stats().phase == EnginePhase::Absent {
            continue;
        }
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
        // Whatever its stats say: a child that is being started does not show in them yet, and would load, and stay.
        if engine.stop().await {
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;
    use idlewild_engine::EngineError;
    use idlewild_protocol::DepartureCause;

    use super::*;
    use crate::worker::fake::{engine, file};

    /// For what takes milliseconds on an idle machine.
    const SOON: Duration = Duration::from_secs(30);

    /// On one thread: what was asked of the engine waits until the test does.
    #[tokio::test]
    async fn a_model_that_is_asked_for_as_the_gate_shuts_is_not_there_while_the_owner_is() {
        for notice_ms in [0, 60_000] {
            let engine = engine();
            let (gate, seen) = watch::channel(Gate::Open);
            let jobs = watch::Sender::new(1);
            let keeper = tokio::spawn(keep(engine.clone(), seen, jobs.subscribe(), Duration::ZERO));
            tokio::task::yield_now().await;
            gate.send_replace(Gate::Shut { cause: DepartureCause::OwnerReturned, notice_ms });
            jobs.send_replace(0);
            let mut load = pin!(engine.load(file()));
            assert!(load.as_mut().now_or_never().is_none());
            assert_eq!(engine.stats().phase, EnginePhase::Absent, "it does not show yet, and the keeper looks first");
            let refused = timeout(SOON, load).await.unwrap();
            assert!(matches!(refused, Err(EngineError::Stopped)), "{notice_ms} {refused:?}");
            assert_eq!(engine.stats().phase, EnginePhase::Absent);
            // Its job may be as late as that.
            let mut late = pin!(engine.load(file()));
            for _ in 0..100 {
                tokio::task::yield_now().await;
                assert!(late.as_mut().now_or_never().is_none(), "it waits for the owner to go");
            }
            assert_eq!(engine.stats().phase, EnginePhase::Absent);
            gate.send_replace(Gate::Open);
            assert!(timeout(SOON, late).await.unwrap().is_ok(), "{notice_ms}");
            drop(gate);
            timeout(SOON, keeper).await.unwrap().unwrap();
            assert_eq!(engine.stats().phase, EnginePhase::Absent, "nobody is left to work for");
        }
    }

    #[tokio::test]
    async fn a_load_that_nobody_waits_for_any_more_does_not_begin() {
        let engine = engine();
        assert!(engine.load(file()).now_or_never().is_none(), "asked for, and dropped");
        // Served after it.
        assert!(!engine.stop().await, "there was no child");
    }
}
