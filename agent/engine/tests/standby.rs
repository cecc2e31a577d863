//! Standbys and moving contexts over the pipe, with real child processes around the fake model.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "these tests use a part")]
mod support;

use idlewild_engine::{
    Backend, Engine, EngineConfig, EngineJob, EngineStream, ExportError, FakeRates, KvChunk, SequenceEvent,
};
use idlewild_protocol::{JobFailure, TokenId};
use support::{Answer, MODEL, answer, fake_config, file, hear, job, of_ids, soon, until, until_held};

/// Positions of a chunk: 8 MB of the fake's.
const CHUNK: u32 = 400;

async fn loaded(config: EngineConfig) -> Engine {
    let (engine, _) = Engine::start(config);
    soon("the load", engine.load(file(MODEL))).await.unwrap();
    engine
}

/// One step that gives a token takes five minutes; reading takes no time.
fn slow() -> EngineConfig {
    EngineConfig {
        backend: Backend::Fake(FakeRates { prefill_tps: 0.0, decode_tps: 1.0 / 300.0, load_ms: 0 }),
        ..fake_config(0.0)
    }
}

fn long_prompt() -> String {
    vec!["a few words"; 333].join(" ")
}

async fn prompt_of(stream: &mut EngineStream) -> Vec<TokenId> {
    let accepted = hear("acceptance", stream, |event| matches!(event, SequenceEvent::Accepted { .. })).await;
    if let SequenceEvent::Accepted { prompt } = accepted { prompt } else { Vec::new() }
}

async fn undisturbed(job: EngineJob) -> Answer {
    let engine = loaded(fake_config(0.0)).await;
    answer(engine.submit(job).await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_moves_between_two_children_while_the_source_decodes() {
    let job = job(&long_prompt(), 60);
    let whole = undisturbed(job.clone()).await;
    let (source, destination) = (loaded(fake_config(0.0)).await, loaded(fake_config(0.0)).await);
    // A quick child would be through before it hears where to stop, so it begins when it has heard: it has answered.
    source.halt(true);
    let mut running = source.submit(job).await.unwrap();
    let from = running.handle();
    from.stop_after(29).unwrap();
    assert_eq!(soon("an answer", from.export(0, 1)).await, Err(ExportError::NotHeld));
    source.halt(false);
    let prompt = prompt_of(&mut running).await;
    // Told with the job: a word that follows it may come when all is evaluated already.
    let mut standby = destination.prepare(of_ids(&prompt, &[], 60), Some(0)).await.unwrap();
    let to = standby.handle();
    prompt_of(&mut standby).await;
    let mut ids = Vec::new();
    while ids.len() < 30 {
        if let Some(SequenceEvent::Token { index, id, .. }) = soon("a token", running.next()).await {
            to.extend(index, vec![id]).unwrap();
            ids.push(id.0);
        }
    }
    // The last id's position is not held: nothing has been drawn from it.
    let held = u32::try_from(prompt.len()).unwrap() + 29;
    assert_eq!(from.export(held, held + 1).await, Err(ExportError::NotHeld));
    for first in (0..held).step_by(CHUNK as usize) {
        let last = held.min(first + CHUNK);
        let bytes = soon("a chunk", from.export(first, last)).await.unwrap();
        soon("room for it", to.import(KvChunk { from: first, to: last, bytes })).await.unwrap();
    }
    assert_eq!(until_held(&mut standby, held + 1).await, held, "all was imported");
    until(&destination, "the standby is told", |s| (s.standbys, s.running) == (1, 0)).await;
    to.take_over(30).unwrap();
    while let Some(event) = soon("an event", standby.next()).await {
        if let SequenceEvent::Token { index, id, .. } = event {
            assert_eq!(index as usize, ids.len());
            ids.push(id.0);
        }
    }
    assert_eq!(ids, whole.ids);
    drop(running);
    until(&source, "all is free", |s| s.kv_free_tokens == s.kv_tokens).await;
    let gone = soon("an answer", from.export(0, 1)).await;
    assert_eq!(gone, Err(ExportError::Gone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halt_ends_a_step_that_would_take_minutes_and_copies_go_on() {
    let engine = loaded(slow()).await;
    let prompt: Vec<TokenId> = (400..420).map(TokenId).collect();
    let mut standby = engine.prepare(of_ids(&prompt, &[], 60), None).await.unwrap();
    until_held(&mut standby, 20).await;
    let mut running = engine.submit(job("a", 5)).await.unwrap();
    until(&engine, "the step has begun", |s| s.running == 1).await;
    engine.halt(true);
    // The child answers, so it is not in the step.
    let bytes = soon("a chunk", standby.handle().export(0, 19)).await.unwrap();
    drop(standby);
    let mut other = engine.prepare(of_ids(&prompt, &[], 60), None).await.unwrap();
    prompt_of(&mut other).await;
    soon("room", other.handle().import(KvChunk { from: 0, to: 19, bytes })).await.unwrap();
    assert_eq!(until_held(&mut other, 20).await, 19);
    prompt_of(&mut running).await;
    drop(running);
    until(&engine, "the job is gone", |s| s.running == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halts_change_nothing_in_an_answer() {
    let job = job("a story with interruptions", 60);
    let whole = undisturbed(job.clone()).await;
    for engine in [loaded(fake_config(300.0)).await, in_process(fake_config(300.0)).await] {
        let prompt = prompt_of(&mut engine.submit(job.clone()).await.unwrap()).await;
        // It stops where it is told to and stays, however late it is halted.
        let mut stream = engine.get_ready(of_ids(&prompt, &[], 60), None).await.unwrap();
        let handle = stream.handle();
        handle.stop_after(39).unwrap();
        handle.take_over(0).unwrap();
        let mut ids = Vec::new();
        while ids.len() < 40 {
            if let Some(SequenceEvent::Token { index, id, .. }) = soon("an event", stream.next()).await {
                assert_eq!(index as usize, ids.len());
                ids.push(id.0);
                engine.halt(true);
                // Answered, so the halt has been seen.
                soon("an answer", handle.export(0, 1)).await.unwrap();
                engine.halt(false);
            }
        }
        assert_eq!(ids, whole.ids[..40]);
    }
}

async fn in_process(config: EngineConfig) -> Engine {
    let (engine, _) = Engine::in_process(config);
    soon("the load", engine.load(file(MODEL))).await.unwrap();
    engine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_before_the_model_is_loaded_are_obeyed_after_it() {
    let job = job("one two three", 20);
    let whole = undisturbed(job.clone()).await;
    let engine = loaded(fake_config(0.0)).await;
    let prompt = prompt_of(&mut engine.submit(job).await.unwrap()).await;
    engine.stop().await;
    let stream = engine.prepare(of_ids(&prompt, &whole.ids[..3], 20), None).await.unwrap();
    let handle = stream.handle();
    handle.extend(3, whole.ids[3..9].iter().map(|id| TokenId(*id)).collect()).unwrap();
    handle.take_over(9).unwrap();
    let mut stream = stream;
    let mut ids = Vec::new();
    while let Some(event) = soon("an event", stream.next()).await {
        if let SequenceEvent::Token { id, .. } = event {
            ids.push(id.0);
        }
    }
    assert_eq!(ids, whole.ids[9..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_makes_room_and_its_death_is_told() {
    let engine = loaded(EngineConfig { slots: 1, ..fake_config(0.0) }).await;
    let prompt: Vec<TokenId> = (400..420).map(TokenId).collect();
    let mut standby = engine.prepare(of_ids(&prompt, &[], 60), None).await.unwrap();
    until_held(&mut standby, 20).await;
    assert_eq!(answer(engine.submit(job("a", 5)).await.unwrap()).await.ids.len(), 5);
    let end = hear("its end", &mut standby, SequenceEvent::is_last).await;
    assert_eq!(end, SequenceEvent::Failed(JobFailure::Busy));
    let handle = standby.handle();
    assert_eq!(soon("an answer", handle.export(0, 1)).await, Err(ExportError::Gone));
    let mut held = engine.prepare(of_ids(&prompt, &[], 60), None).await.unwrap();
    until_held(&mut held, 20).await;
    engine.stop().await;
    assert_eq!(hear("its end", &mut held, SequenceEvent::is_last).await, SequenceEvent::Failed(JobFailure::Leaving));
}
