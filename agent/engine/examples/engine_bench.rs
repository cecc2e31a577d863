//! How fast the bare engine is: tokens a second of 1, 2, 4 and 8 answers at once, as one line of JSON.
//!
//! `cargo run --release -p idlewild-engine --example engine_bench -- MODEL.gguf [TOKENS] [THREADS] [in-process]`
//!
//! The child runs at idle priority, so on a busy machine the figures are those of the leftovers; `in-process` measures at
//! the priority of this program.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use idlewild_engine::{
    Backend, DoublesAt, Engine, EngineConfig, EngineError, EngineJob, KvType, ModelFile, SequenceEvent,
};
use idlewild_protocol::{JobInput, ModelId, Sampling};
use serde_json::json;

const MODEL: ModelId = ModelId([0; 32]);

/// About 500 tokens.
fn long_prompt() -> String {
    "The quick brown fox jumps over the lazy dog near the river bank. ".repeat(35)
}

/// A few tokens, after which a model has much to say.
fn short_prompt(number: usize) -> String {
    format!("Chapter {number}. Once upon a time in a small village by the sea there lived an old fisherman who")
}

struct Answer {
    prompt_tokens: usize,
    tokens: u32,
    first_token: Duration,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("child") {
        return idlewild_engine::child_main(idlewild_engine::Courtesy::YieldToAll);
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
        kv_type: KvType::F16,
    };
    let (engine, _notices) = if in_process { Engine::in_process(config) } else { Engine::start(config) };
    let loaded = engine
        .load(ModelFile { path, id: MODEL, verify: false, name: "bench".to_owned(), doubles_at: DoublesAt::default() })
        .await?;
    let promised = engine.stats();
    let began = Instant::now();
    let cpu_before = cpu_seconds();
    let reading = answer(&engine, long_prompt(), 1).await?;
    let prefill = json!({
        "prompt_tokens": reading.prompt_tokens,
        "tps": reading.prompt_tokens as f64 / began.elapsed().as_secs_f64(),
        "cpu_s": cpu_seconds() - cpu_before,
    });
    let mut runs = Vec::new();
    for together in [1, 2, 4, 8] {
        runs.push(run(&engine, together, tokens).await?);
    }
    engine.stop().await;
    Ok(json!({
        "load_ms": loaded.load_ms,
        "kv_bytes_per_token": loaded.kv_bytes_per_token,
        "promised": { "prefill_tps": promised.prefill_tps, "decode_tps": promised.decode_tps },
        "prefill": prefill,
        "decode": runs,
    }))
}

/// One run: so many answers at once, and the tokens a second of all of them.
async fn run(engine: &Engine, together: usize, tokens: u32) -> Result<serde_json::Value, EngineError> {
    let began = Instant::now();
    let cpu_before = cpu_seconds();
    let mut tasks = Vec::new();
    for number in 0..together {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move { answer(&engine, short_prompt(number), tokens).await }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.map_err(|error| EngineError::Exited(error.to_string()))??);
    }
    let seconds = began.elapsed().as_secs_f64();
    let written: u32 = answers.iter().map(|answer| answer.tokens).sum();
    let slowest_first = answers.iter().map(|answer| answer.first_token.as_secs_f64()).fold(0.0, f64::max);
    Ok(json!({
        "together": together,
        "output_tokens": written,
        "seconds": seconds,
        "tps": f64::from(written) / seconds,
        "slowest_first_token_s": slowest_first,
        "cpu_s": cpu_seconds() - cpu_before,
        "stats_decode_tps": engine.stats().decode_tps,
    }))
}

/// Seconds of processor time that this process has used, for runs in it on Linux; 0 elsewhere.
fn cpu_seconds() -> f64 {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_S
}

async fn answer(engine: &Engine, prompt: String, tokens: u32) -> Result<Answer, EngineError> {
    let began = Instant::now();
    let sampling = Sampling { temperature: 1.0, top_p: 0.95, ..Sampling::default() };
    let input = JobInput::Text { prompt };
    let job = EngineJob { model: MODEL, input, sampling, max_tokens: tokens, stop: Vec::new() };
    let mut stream = engine.submit(job).await?;
    let mut answer = Answer { prompt_tokens: 0, tokens: 0, first_token: Duration::ZERO };
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
            SequenceEvent::Prefilled { .. }
            | SequenceEvent::Finished { .. }
            | SequenceEvent::Held { .. }
            | SequenceEvent::ImportRefused { .. }
            | SequenceEvent::ExtendRefused { .. }
            | SequenceEvent::TakeOverRefused { .. } => {}
        }
    }
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
