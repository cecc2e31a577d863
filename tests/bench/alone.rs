//! The engine alone: the same child process, driven by its crate without an agent.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use idlewild_engine::{Backend, DoublesAt, Engine, EngineConfig, EngineJob, KvType, ModelFile, SequenceEvent};
use idlewild_protocol::{JobInput, ModelId, Sampling};
use idlewild_tests::agent::Exertion;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

/// The id under which it holds its model. Nobody else hears of it, so that any will do.
const MODEL: ModelId = ModelId([7; 32]);

/// Requests at once, and tokens of one and of all: what the agents of the bench are set to as well.
pub(crate) const SLOTS: u16 = 4;
pub(crate) const CONTEXT_TOKENS: u32 = 1024;
pub(crate) const KV_TOKENS: u32 = 4096;

/// How long a prompt is read before its reading is halted; it takes longer than that.
const READ_FOR_MS: std::ops::Range<u64> = 100..600;

/// How long a halted engine is watched.
const WATCHED: Duration = Duration::from_millis(300);

/// For an engine to let go of a job.
const IDLE_WITHIN: Duration = Duration::from_secs(10);

/// Threads of both: an agent by itself leaves a core to the owner.
pub(crate) fn threads() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u16::try_from(cores).unwrap_or(u16::MAX).saturating_sub(1).max(1)
}

/// An engine without an agent.
pub(crate) struct Alone {
    runtime: Runtime,
    engine: Engine,
}

/// When the tokens of one answer came.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    pub(crate) asked: Instant,
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) tokens: u32,
}

impl Alone {
    pub(crate) fn start(backend: Backend, model: &Path) -> Result<Self> {
        let runtime = Runtime::new().context("start a runtime")?;
        let config = EngineConfig {
            program: idlewild_tests::agent::program()?,
            arguments: vec!["engine".to_owned()],
            backend,
            threads: threads(),
            slots: SLOTS,
            context_tokens: CONTEXT_TOKENS,
            kv_tokens: KV_TOKENS,
            kv_type: KvType::F16,
        };
        let file = ModelFile {
            path: model.to_owned(),
            id: MODEL,
            verify: false,
            name: "bench".to_owned(),
            doubles_at: DoublesAt::default(),
        };
        let engine = runtime.block_on(async {
            let (engine, _notices) = Engine::start(config);
            engine.load(file).await.map(|_| engine)
        });
        Ok(Self { engine: engine.context("load the model")?, runtime })
    }

    /// Has it read a prompt and halts it in the middle; how long after that it computed for the last time.
    pub(crate) fn halt_in_a_prompt(&self, prompt: String) -> Result<Duration> {
        self.runtime.block_on(async {
            let stream = self.engine.submit(job(prompt, 2)).await?;
            let pid = self.engine.pid().context("an engine")?;
            let is_over = Arc::new(AtomicBool::new(false));
            let until = Arc::clone(&is_over);
            let watch = tokio::task::spawn_blocking(move || Exertion::watch(pid, &until));
            // Anywhere in a step.
            sleep(Duration::from_millis(rand::random_range(READ_FOR_MS))).await;
            let halted = Instant::now();
            self.engine.halt(true);
            sleep(WATCHED).await;
            is_over.store(true, Ordering::Relaxed);
            let exertion = watch.await?;
            drop(stream);
            self.engine.halt(false);
            let mut stats = self.engine.watch_stats();
            timeout(IDLE_WITHIN, stats.wait_for(|stats| stats.running == 0)).await.context("it goes on")??;
            ensure!(exertion.was_busy_before(halted), "it did not read");
            exertion.ended_after(halted).context("nobody looked")
        })
    }

    /// Answers prompts at once, each with its likeliest tokens.
    pub(crate) fn answer(&self, prompts: &[String], max_tokens: u32) -> Result<Vec<Times>> {
        self.runtime.block_on(async {
            let answers = prompts.iter().map(|prompt| {
                let engine = self.engine.clone();
                tokio::spawn(answer(engine, prompt.clone(), max_tokens))
            });
            futures::future::join_all(answers.collect::<Vec<_>>()).await.into_iter().map(|done| done?).collect()
        })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.stop());
    }
}

fn job(prompt: String, max_tokens: u32) -> EngineJob {
    let input = JobInput::Text { prompt };
    EngineJob { model: MODEL, input, sampling: Sampling::default(), max_tokens, stop: Vec::new() }
}

async fn answer(engine: Engine, prompt: String, max_tokens: u32) -> Result<Times> {
    let asked = Instant::now();
    let mut stream = engine.submit(job(prompt, max_tokens)).await?;
    let mut times = Times { asked, first: asked, last: asked, tokens: 0 };
    while let Some(event) = stream.next().await {
        match event {
            SequenceEvent::Token { index, .. } => {
                times.last = Instant::now();
                times.tokens = index + 1;
                if index == 0 {
                    times.first = times.last;
                }
            }
            SequenceEvent::Failed(failure) => bail!("the bare engine failed: {failure}"),
            SequenceEvent::Accepted { .. }
            | SequenceEvent::Prefilled { .. }
            | SequenceEvent::Finished { .. }
            | SequenceEvent::Held { .. }
            | SequenceEvent::ImportRefused { .. }
            | SequenceEvent::ExtendRefused { .. }
            | SequenceEvent::TakeOverRefused { .. } => {}
        }
    }
    Ok(times)
}
