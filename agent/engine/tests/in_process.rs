//! The handle over the fake on a thread: what the agent's tests build on.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "these tests use a part")]
mod support;

use std::time::Duration;

use idlewild_engine::{Backend, Engine, EngineConfig, EngineError, EnginePhase, FakeRates, SequenceEvent};
use idlewild_protocol::{FinishReason, JobFailure, JobInput, TokenId};
use support::{MODEL, answer, chat, fake_config, file, first_token, hear, job, soon, until};

async fn loaded(config: EngineConfig) -> Engine {
    let (engine, _) = Engine::in_process(config);
    soon("the load", engine.load(file(MODEL))).await.unwrap();
    engine
}

#[tokio::test]
async fn chat_text_and_tokens_are_answered() {
    let engine = loaded(fake_config(0.0)).await;
    let messages = r#"[{"role":"user","content":"hello there"}]"#;
    let whole = answer(engine.submit(chat(messages, 12)).await.unwrap()).await;
    assert_eq!((whole.ids.len(), whole.reason()), (12, Some(FinishReason::Length)));
    assert!(whole.prompt_tokens > 2);
    let bad = answer(engine.submit(chat("[]", 12)).await.unwrap()).await;
    assert!(matches!(bad.end, Some(SequenceEvent::Failed(JobFailure::BadInput(_)))), "{bad:?}");

    let ended = answer(engine.submit(job("stop soon !end=4", 50)).await.unwrap()).await;
    assert_eq!((ended.ids.len(), ended.reason()), (4, Some(FinishReason::Stop)));
}

#[tokio::test]
async fn a_job_goes_on_from_its_tokens_on_another_engine() {
    let first = loaded(fake_config(0.0)).await;
    let mut stream = first.submit(job("a long story", 30)).await.unwrap();
    let Some(SequenceEvent::Accepted { prompt }) = soon("acceptance", stream.next()).await else {
        panic!("not accepted")
    };
    let whole = answer(stream).await;
    let second = loaded(fake_config(0.0)).await;
    let generated = whole.ids[..11].iter().map(|id| TokenId(*id)).collect();
    let rest = idlewild_engine::EngineJob { input: JobInput::Tokens { prompt, generated }, ..job("", 30) };
    let mut stream = second.submit(rest).await.unwrap();
    let mut ids = whole.ids[..11].to_vec();
    while let Some(event) = soon("the next event", stream.next()).await {
        if let SequenceEvent::Token { index, id, .. } = event {
            assert_eq!(index as usize, ids.len());
            ids.push(id.0);
        }
    }
    assert_eq!(ids, whole.ids);
}

#[tokio::test]
async fn a_dropped_stream_makes_room() {
    let engine = loaded(EngineConfig { slots: 1, ..fake_config(200.0) }).await;
    let mut first = engine.submit(job("first", 4000)).await.unwrap();
    first_token(&mut first).await;
    let second = engine.submit(job("second", 3)).await.unwrap();
    until(&engine, "one runs, one waits", |s| (s.running, s.waiting) == (1, 1)).await;
    drop(first);
    assert_eq!(answer(second).await.ids.len(), 3);
    until(&engine, "all is free", |s| s.running == 0 && s.kv_free_tokens == s.kv_tokens).await;
}

#[tokio::test]
async fn jobs_before_any_load_are_refused() {
    let (engine, _notices) = Engine::in_process(fake_config(0.0));
    assert!(matches!(engine.submit(job("a", 1)).await, Err(EngineError::NoModel)));
}

#[tokio::test]
async fn loading_twice_costs_once() {
    let slow =
        EngineConfig { backend: Backend::Fake(FakeRates { load_ms: 300, ..FakeRates::INSTANT }), ..fake_config(0.0) };
    let (engine, _notices) = Engine::in_process(slow);
    let (a, b) = soon("both", async { tokio::join!(engine.load(file(MODEL)), engine.load(file(MODEL))) }).await;
    assert_eq!(a.unwrap(), b.unwrap());
    let began = std::time::Instant::now();
    soon("the third", engine.load(file(MODEL))).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(300), "it is loaded already");
}

#[tokio::test]
async fn an_unloaded_model_is_forgotten() {
    let engine = loaded(fake_config(100.0)).await;
    let mut stream = engine.submit(job("long", 4000)).await.unwrap();
    first_token(&mut stream).await;
    engine.unload().await;
    let end = hear("its end", &mut stream, SequenceEvent::is_last).await;
    assert_eq!(end, SequenceEvent::Failed(JobFailure::Leaving));
    assert!(matches!(engine.submit(job("a", 1)).await, Err(EngineError::NoModel)));
    until(&engine, "no model", |s| s.model.is_none() && s.phase == EnginePhase::Starting).await;
    soon("the load", engine.load(file(MODEL))).await.unwrap();
}

#[tokio::test]
async fn more_streams_than_the_engine_takes_are_refused() {
    let engine = loaded(EngineConfig { slots: 1, ..fake_config(50.0) }).await;
    let mut streams = Vec::new();
    let refusal = loop {
        assert!(streams.len() < 1000, "there is no bound");
        match engine.submit(job("a", 4000)).await {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(refusal, EngineError::Busy);
}

#[tokio::test]
async fn a_job_too_large_for_the_pipe_is_refused() {
    let engine = loaded(fake_config(0.0)).await;
    let refusal = engine.submit(job(&"x ".repeat(2_000_000), 1)).await;
    assert!(matches!(refusal, Err(EngineError::TooLarge)), "{refusal:?}");
    assert_eq!(answer(engine.submit(job("a", 2)).await.unwrap()).await.ids.len(), 2);
}

#[tokio::test]
async fn a_waiting_stream_shows_that_it_lives() {
    let engine = loaded(EngineConfig { slots: 1, ..fake_config(20.0) }).await;
    let _first = engine.submit(job("first", 4000)).await.unwrap();
    let mut second = engine.submit(job("second", 3)).await.unwrap();
    let mut proofs = 0;
    while proofs < 3 {
        match soon("a sign of life", second.next()).await {
            Some(SequenceEvent::Prefilled { done: 0, .. }) => proofs += 1,
            Some(SequenceEvent::Accepted { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
