//! What an owner who returns ends, and what has to wait: loads, and what is copied and computed meanwhile.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "these tests use a part")]
mod support;

use core::pin::pin;
use core::task::{Context, Waker};

use idlewild_engine::{Backend, Engine, EngineConfig, EngineError, EnginePhase, FakeRates, SequenceEvent};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use support::{MODEL, answer, fake_config, file, job, soon, until};

/// A load takes it an hour.
fn endless_load() -> EngineConfig {
    EngineConfig { backend: Backend::Fake(FakeRates { load_ms: 3_600_000, ..FakeRates::INSTANT }), ..fake_config(0.0) }
}

fn process(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_ends_with_its_child_when_the_owner_returns_or_the_engine_is_stopped() {
    for is_halt in [true, false] {
        let (engine, _notices) = Engine::start(endless_load());
        let load = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.load(file(MODEL)).await })
        };
        until(&engine, "it loads", |s| s.phase == EnginePhase::Loading).await;
        let pid = engine.pid().unwrap();
        if is_halt {
            engine.halt(true);
        } else {
            assert!(engine.stop().await, "there was a child");
        }
        assert!(matches!(soon("the end of the load", load).await.unwrap(), Err(EngineError::Stopped)));
        until(&engine, "no child", |s| s.phase == EnginePhase::Absent && s.pid.is_none()).await;
        assert!(test_kill_process(process(pid)).is_err(), "the child is gone");
        assert!(!engine.stop().await, "nothing is left to stop");
        assert_eq!(engine.stats().restarts, 0, "that is no death");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_loaded_while_the_owner_is_there_and_what_was_asked_for_is_afterwards() {
    for (engine, _) in [Engine::start(fake_config(0.0)), Engine::in_process(fake_config(0.0))] {
        engine.halt(true);
        let mut load = pin!(engine.load(file(MODEL)));
        assert!(load.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Served after the load: an option waits for nothing.
        let other = soon("a refusal", engine.load_if_free(file(MODEL))).await;
        assert!(matches!(other, Err(EngineError::Busy)), "{other:?}");
        assert_eq!((engine.stats().phase, engine.pid()), (EnginePhase::Absent, None));
        engine.halt(false);
        soon("the load", load).await.unwrap();
        assert_eq!(answer(engine.submit(job("a b c", 5)).await.unwrap()).await.ids.len(), 5);
        engine.stop().await;
        engine.halt(true);
        let refused = soon("a refusal", engine.submit(job("a b c", 5))).await;
        assert!(matches!(refused, Err(EngineError::Stopped)), "the model is gone: {refused:?}");
        let mut waits = pin!(engine.load(file(MODEL)));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!engine.stop().await);
        assert!(matches!(soon("its end", waits).await, Err(EngineError::Stopped)), "a stop ends it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_dies_while_the_owner_is_there_is_not_started_again_before_it_is_asked_for() {
    let (engine, mut notices) = Engine::start(fake_config(0.0));
    soon("the load", engine.load(file(MODEL))).await.unwrap();
    engine.halt(true);
    kill_process(process(engine.pid().unwrap()), Signal::KILL).unwrap();
    soon("the exit's notice", notices.recv()).await.unwrap();
    // The pause is over, and no other child begins.
    until(&engine, "it is absent", |s| s.phase == EnginePhase::Absent).await;
    assert_eq!(engine.pid(), None);
    engine.halt(false);
    let mut stream = soon("a stream", engine.submit(job("a b c", 5))).await.unwrap();
    assert!(!matches!(soon("an event", stream.next()).await, None | Some(SequenceEvent::Failed(_))));
}
