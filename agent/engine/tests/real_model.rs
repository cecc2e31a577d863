//! The engine around llama.cpp with a real model: set `IDLEWILD_TEST_MODEL` to the path of SmolLM2-135M-Instruct as GGUF.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "these tests use a part")]
mod support;

use std::io::Write;
use std::path::{Path, PathBuf};

use idlewild_engine::{
    Backend, DoublesAt, Engine, EngineConfig, EngineError, EngineJob, KvType, LoadFailure, ModelFile, SequenceEvent,
};
use idlewild_protocol::{FinishReason, JobFailure, Sampling};
use support::{MODEL, answer, chat, child_program, job, soon, until};

/// The model's path; without one the test says so and passes.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn model() -> Option<PathBuf> {
    let path = std::env::var_os("IDLEWILD_TEST_MODEL").map(PathBuf::from);
    if path.is_none() {
        eprintln!("SKIPPED: IDLEWILD_TEST_MODEL is not set");
    }
    path
}

fn config() -> EngineConfig {
    EngineConfig {
        program: child_program(),
        arguments: vec!["--share".to_owned()],
        backend: Backend::Llama,
        threads: 1,
        slots: 4,
        context_tokens: 512,
        kv_tokens: 2048,
        kv_type: KvType::F16,
    }
}

fn file(path: &Path) -> ModelFile {
    ModelFile {
        path: path.to_path_buf(),
        id: MODEL,
        verify: false,
        name: "smollm2".to_owned(),
        doubles_at: DoublesAt::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_capital_of_france_is_paris() {
    let Some(path) = model() else { return };
    let (engine, _notices) = Engine::start(config());
    let loaded = soon("the load", engine.load(file(&path))).await.unwrap();
    assert_eq!((loaded.context_tokens, loaded.vocabulary, loaded.layers), (512, 49_152, 30));
    assert!((22_000..24_500).contains(&loaded.kv_bytes_per_token), "{loaded:?}");
    let stats = engine.stats();
    assert!(stats.decode_tps > 0.1 && stats.prefill_tps > 0.1, "measured before the first job: {stats:?}");
    let messages = r#"[{"role":"user","content":"What is the capital of France? Answer in one sentence."}]"#;
    let answer = answer(engine.submit(chat(messages, 40)).await.unwrap()).await;
    assert!(answer.text.contains("Paris"), "{answer:?}");
    assert_eq!(answer.reason(), Some(FinishReason::Stop), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_answers_at_once_are_whole() {
    let Some(path) = model() else { return };
    let (engine, _notices) = Engine::in_process(config());
    soon("the load", engine.load(file(&path))).await.unwrap();
    let mut tasks = Vec::new();
    for (n, subject) in ["cats", "the sea", "bread", "winter"].into_iter().enumerate() {
        let sampling = Sampling { temperature: 0.8, top_p: 0.9, seed: n as u64, ..Sampling::default() };
        let job = EngineJob { sampling, ..job(&format!("Write about {subject}:"), 12) };
        tasks.push(tokio::spawn(answer(engine.submit(job).await.unwrap())));
    }
    for task in tasks {
        let answer = task.await.unwrap();
        assert!(answer.reason().is_some() && !answer.text.is_empty(), "{answer:?}");
    }
    until(&engine, "all is free", |s| s.running == 0 && s.kv_free_tokens == 2048).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_of_long_contexts_is_believed_until_some_are_seen() {
    let Some(path) = model() else { return };
    let (engine, _notices) = Engine::in_process(config());
    let doubles_at = DoublesAt { decode: 9000, prefill: 11_000 };
    soon("the load", engine.load(ModelFile { doubles_at, ..file(&path) })).await.unwrap();
    let near = |tokens: u16, known: u16| tokens.abs_diff(known) <= known / 100;
    until(&engine, "rates", |s| near(s.decode_doubles_at, 9000) && near(s.prefill_doubles_at, 11_000)).await;
    let (other, _notices) = Engine::in_process(config());
    soon("the load", other.load(file(&path))).await.unwrap();
    until(&other, "rates by the model's form", |s| (1..8000).contains(&s.decode_doubles_at)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_prompt_is_refused_with_the_figures() {
    let Some(path) = model() else { return };
    let (engine, _notices) = Engine::in_process(config());
    soon("the load", engine.load(file(&path))).await.unwrap();
    let answer = answer(engine.submit(job(&"word ".repeat(600), 4)).await.unwrap()).await;
    let Some(SequenceEvent::Failed(JobFailure::PromptTooLong { prompt_tokens, context_tokens: 512 })) = answer.end
    else {
        panic!("{answer:?}");
    };
    assert!((600..=602).contains(&prompt_tokens));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_are_errors_and_the_engine_lives_on() {
    let Some(path) = model() else { return };
    let bytes = std::fs::read(&path).unwrap();
    let (engine, _notices) = Engine::start(config());
    let mut scrambled = bytes[..400_000].to_vec();
    scrambled[8..400].fill(0xee);
    let cases: [(&str, &[u8]); 4] = [
        ("truncated in the weights", &bytes[..bytes.len() / 2]),
        ("truncated in the header", &bytes[..1000]),
        ("nonsense after the magic", &scrambled),
        ("not a GGUF", b"hello"),
    ];
    for (what, bytes) in cases {
        let mut damaged = tempfile::NamedTempFile::new().unwrap();
        damaged.write_all(bytes).unwrap();
        let error = soon(what, engine.load(file(damaged.path()))).await.unwrap_err();
        assert!(
            matches!(error, EngineError::Load(LoadFailure::Refused(_) | LoadFailure::NotGguf)),
            "{what}: {error:?}"
        );
    }
    let wrong = ModelFile { verify: true, ..file(&path) };
    let error = soon("the hash", engine.load(wrong)).await.unwrap_err();
    assert!(matches!(error, EngineError::Load(LoadFailure::WrongHash { .. })), "{error:?}");
    soon("the load", engine.load(file(&path))).await.unwrap();
    let answer = answer(engine.submit(job("Once upon a time", 4)).await.unwrap()).await;
    assert_eq!((answer.ids.len(), engine.stats().restarts), (4, 0), "{answer:?}");
}

/// llama.cpp starts threads of its own for each step, which inherit what the child asked for before anything else.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_thread_of_the_child_comes_last_at_the_processor_and_at_the_disk() {
    let Some(path) = model() else { return };
    let (engine, _notices) = Engine::start(EngineConfig { threads: 2, arguments: Vec::new(), ..config() });
    // It computes as soon as it is loaded, to measure its rates.
    let loading = tokio::spawn({
        let engine = engine.clone();
        async move { engine.load(file(&path)).await }
    });
    // The loop, the reader of commands, and one more that computes.
    let mut seen = Vec::new();
    soon("three threads at once", async {
        while seen.len() < 3 {
            let pid = engine.pid().unwrap_or_default();
            seen = tasks(pid).into_iter().filter_map(|task| standing(pid, task)).collect();
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(seen.len(), 3, "no more threads compute than are set: {seen:?}");
    assert!(seen.iter().all(|standing| *standing == ("5".to_owned(), support::DISK_IDLE)), "{seen:?}");
    loading.abort();
}

#[cfg(target_os = "linux")]
fn tasks(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A thread's policy (field 41 of proc(5)'s stat) and its class at the disk; none of one that has ended meanwhile.
#[cfg(target_os = "linux")]
fn standing(pid: u32, task: u32) -> Option<(String, i64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{task}/stat")).ok()?;
    let policy = stat.rsplit(')').next()?.split_whitespace().nth(38)?;
    Some((policy.to_owned(), support::disk_class(task)?))
}
