//! How fast the bare engine is: tokens a second of 1, 2, 4 and 8 answers at once, as one line of JSON.
//!
//! `cargo run --release -p idlewild-engine --example engine_bench -- MODEL.gguf [TOKENS] [THREADS] [in-process]`
//!
//! The child runs at idle priority, so on a busy machine the figures are those of the leftovers; `in-process` measures at
//! the priority of this program.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use idlewild_engine::{Backend, Engine, EngineConfig, EngineError, EngineJob, ModelFile, SequenceEvent};
use idlewild_protocol::{JobInput, ModelId, Sampling};
use serde_json::json;

const MODEL: ModelId = ModelId([0; 32]);

/// A prompt of about 300 tokens, so that prefill can be told from decoding.
fn prompt(number: usize) -> String {
    format!("Story number {number}. {}", "The quick brown fox jumps over the lazy dog near the river bank. ".repeat(20))
}

struct Answer {
    prompt_tokens: usize,
    tokens: u32,
    first_token: Duration,
    total: Duration,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("child") {
        return idlewild_engine::child_main();
    }
    let Some(model) = first else {
        eprint("usage: engine_bench MODEL.gguf [TOKENS] [THREADS] [in-process]");
        return ExitCode::from(2);
    };
    let tokens = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(64);
    let threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let in_process = arguments.next().is_some_and(|place| place == "in-process");
    let report = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(bench(PathBuf::from(model), tokens, threads, in_process)),
        Err(error) => Err(EngineError::Spawn(error.to_string())),
    };
    match report {
        Ok(report) => {
            print(&report.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint(&format!("{error:?}"));
            ExitCode::FAILURE
        }
    }
}

async fn bench(path: PathBuf, tokens: u32, threads: u16, in_process: bool) -> Result<serde_json::Value, EngineError> {
    let program = std::env::current_exe().map_err(|error| EngineError::Spawn(error.to_string()))?;
    let config = EngineConfig {
        program,
        arguments: vec!["child".to_owned()],
        backend: Backend::Llama,
        threads,
        slots: 8,
        context_tokens: 1024,
        kv_tokens: 8192,
    };
    let (engine, _notices) = if in_process { Engine::in_process(config) } else { Engine::start(config) };
    let loaded = engine.load(ModelFile { path, id: MODEL, verify: false, name: "bench".to_owned() }).await?;
    let promised = engine.stats();
    let mut runs = Vec::new();
    for together in [1, 2, 4, 8] {
        runs.push(run(&engine, together, tokens).await?);
    }
    engine.stop().await;
    Ok(json!({
        "load_ms": loaded.load_ms,
        "kv_bytes_per_token": loaded.kv_bytes_per_token,
        "promised": { "prefill_tps": promised.prefill_tps, "decode_tps": promised.decode_tps },
        "runs": runs,
    }))
}

async fn run(engine: &Engine, together: usize, tokens: u32) -> Result<serde_json::Value, EngineError> {
    let began = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..together {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move { answer(&engine, prompt(number), tokens).await }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.map_err(|error| EngineError::Exited(error.to_string()))??);
    }
    let total = began.elapsed().as_secs_f64();
    // When everyone decodes: from the last first token to the first last one, roughly.
    let last_first = answers.iter().map(|answer| answer.first_token.as_secs_f64()).fold(0.0, f64::max);
    let end = answers.iter().map(|answer| answer.total.as_secs_f64()).fold(0.0, f64::max);
    let written: u32 = answers.iter().map(|answer| answer.tokens).sum();
    let prompt_tokens: usize = answers.iter().map(|answer| answer.prompt_tokens).sum();
    let stats = engine.stats();
    Ok(json!({
        "together": together,
        "seconds": total,
        "prompt_tokens": prompt_tokens,
        "output_tokens": written,
        "output_tps": f64::from(written) / total,
        "decode_only_tps": (f64::from(written) - together as f64) / (end - last_first).max(1e-9),
        "prefill_tps_alone": answers[0].prompt_tokens as f64 / answers[0].first_token.as_secs_f64(),
        "stats_prefill_tps": stats.prefill_tps,
        "stats_decode_tps_one_more": stats.decode_tps,
    }))
}

async fn answer(engine: &Engine, prompt: String, tokens: u32) -> Result<Answer, EngineError> {
    let began = Instant::now();
    let sampling = Sampling { temperature: 0.8, top_p: 0.95, ..Sampling::default() };
    let input = JobInput::Text { prompt };
    let job = EngineJob { model: MODEL, input, sampling, max_tokens: tokens, stop: Vec::new() };
    let mut stream = engine.submit(job).await?;
    let mut answer = Answer { prompt_tokens: 0, tokens: 0, first_token: Duration::ZERO, total: Duration::ZERO };
    while let Some(event) = stream.next().await {
        match event {
            SequenceEvent::Accepted { prompt } => answer.prompt_tokens = prompt.len(),
            SequenceEvent::Token { index, .. } => {
                answer.tokens = index + 1;
                if index == 0 {
                    answer.first_token = began.elapsed();
                }
            }
            SequenceEvent::Failed(failure) => return Err(EngineError::Exited(failure.to_string())),
            SequenceEvent::Prefilled { .. } | SequenceEvent::Finished { .. } => {}
        }
    }
    answer.total = began.elapsed();
    Ok(answer)
}

#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a program without a log")]
fn eprint(text: &str) {
    eprintln!("{text}");
}
