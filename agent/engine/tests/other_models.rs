//! Another model is asked for while sequences of the loaded one exist, with real child processes around the fake model.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "these tests use a part")]
mod support;

use idlewild_engine::{Backend, Engine, EngineConfig, EngineError, FakeRates, SequenceEvent};
use idlewild_protocol::{JobFailure, ModelId, TokenId};
use support::{MODEL, answer, fake_config, file, first_token, hear, job, of_ids, soon, until, until_held};

const OTHER: ModelId = ModelId([8; 32]);

const BUSY: SequenceEvent = SequenceEvent::Failed(JobFailure::Busy);

async fn loaded(config: EngineConfig) -> Engine {
    let (engine, _) = Engine::start(config);
    soon("the load", engine.load(file(MODEL))).await.unwrap();
    engine
}

fn prompt() -> Vec<TokenId> {
    (400..420).map(TokenId).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standbys_do_not_hold_up_another_model() {
    let engine = loaded(fake_config(0.0)).await;
    let mut standby = engine.prepare(of_ids(&prompt(), &[], 60), None).await.unwrap();
    until_held(&mut standby, 20).await;
    assert_eq!(soon("the other model", engine.load(file(OTHER))).await.unwrap().id, OTHER);
    assert_eq!(hear("its end", &mut standby, SequenceEvent::is_last).await, BUSY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standbys_that_wait_for_their_model_do_not_hold_up_another() {
    let slow = Backend::Fake(FakeRates { load_ms: 300, ..FakeRates::INSTANT });
    let engine = loaded(EngineConfig { backend: slow, ..fake_config(0.0) }).await;
    engine.stop().await;
    let mut standby = engine.prepare(of_ids(&prompt(), &[], 60), None).await.unwrap();
    assert_eq!(soon("the other model", engine.load(file(OTHER))).await.unwrap().id, OTHER);
    assert_eq!(hear("its end", &mut standby, SequenceEvent::is_last).await, BUSY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successors_are_waited_for_and_no_standby_is_taken_meanwhile() {
    let engine = loaded(EngineConfig { slots: 3, ..fake_config(0.0) }).await;
    let ids = || of_ids(&prompt(), &[], 60);
    let mut successor = engine.get_ready(ids(), None).await.unwrap();
    until_held(&mut successor, 20).await;
    let promoted = engine.prepare(ids(), None).await.unwrap();
    promoted.handle().get_ready().unwrap();
    let mut standby = engine.prepare(ids(), None).await.unwrap();
    until_held(&mut standby, 20).await;
    until(&engine, "one is promoted", |s| (s.running, s.standbys) == (2, 1)).await;
    let second = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.load(file(OTHER)).await })
    };
    assert_eq!(hear("its end", &mut standby, SequenceEvent::is_last).await, BUSY);
    until(&engine, "its slot is free", |s| (s.running, s.standbys) == (2, 0)).await;
    assert!(matches!(engine.prepare(ids(), None).await, Err(EngineError::Busy)));
    assert!(!second.is_finished());
    drop(successor);
    promoted.handle().take_over(0).unwrap();
    assert_eq!(answer(promoted).await.ids.len(), 60, "it goes on to its end");
    assert_eq!(soon("the other model", second).await.unwrap().unwrap().id, OTHER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_for_a_standby_holds_nobody_up() {
    let engine = loaded(fake_config(100.0)).await;
    let mut stream = engine.submit(job("long", 4000)).await.unwrap();
    first_token(&mut stream).await;
    assert!(matches!(engine.load_if_free(file(OTHER)).await, Err(EngineError::Busy)));
    assert_eq!(engine.load_if_free(file(MODEL)).await.unwrap().id, MODEL, "the one that is there is");
    assert_eq!(answer(engine.submit(job("a", 3)).await.unwrap()).await.ids.len(), 3, "jobs are taken as before");
    let mut standby = engine.prepare(of_ids(&prompt(), &[], 60), None).await.unwrap();
    drop(stream);
    until_held(&mut standby, 20).await;
    assert!(matches!(engine.load_if_free(file(OTHER)).await, Err(EngineError::Busy)), "no option for another");
    drop(standby);
    until(&engine, "all is free", |s| s.kv_free_tokens == s.kv_tokens).await;
    assert_eq!(soon("the other model", engine.load_if_free(file(OTHER))).await.unwrap().id, OTHER);
}
