//! The engine alone: the same child process, driven by its crate without an agent.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use idlewild_engine::{Backend, DoublesAt, Engine, EngineConfig, EngineJob, KvType, ModelFile, SequenceEvent};
use idlewild_protocol::{JobInput, ModelId, Sampling};
use tokio::runtime::Runtime;

/// The id under which it holds its model. Nobody else hears of it, so that any will do.
const MODEL: ModelId = ModelId([7; 32]);

/// Requests at once, and tokens of one and of all: what the agents of the bench are set to as well.
pub(crate) const SLOTS: u16 = 4;
pub(crate) const CONTEXT_TOKENS: u32 = 1024;
pub(crate) const KV_TOKENS: u32 = 4096;

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

async fn answer(engine: Engine, prompt: String, max_tokens: u32) -> Result<Times> {
    let asked = Instant::now();
    let input = JobInput::Text { prompt };
    let job = EngineJob { model: MODEL, input, sampling: Sampling::default(), max_tokens, stop: Vec::new() };
    let mut stream = engine.submit(job).await?;
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
