//! What the fake engine answers when nothing disturbs it: computed here at once, by the same code as a worker's.

use anyhow::{Context, Result, bail};
use idlewild_engine::{
    Backend, DoublesAt, Engine, EngineConfig, EngineJob, FakeRates, KvType, ModelFile, SequenceEvent,
};
use idlewild_protocol::{JobInput, ModelId, Sampling};

/// Any will do: the answer depends on the ids alone.
const MODEL: ModelId = ModelId([1; 32]);

/// The text of the likeliest `max_tokens` tokens after `prompt`.
pub fn undisturbed(prompt: &str, max_tokens: u32) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a runtime")?;
    runtime.block_on(answer(prompt, max_tokens))
}

async fn answer(prompt: &str, max_tokens: u32) -> Result<String> {
    let (engine, _) = Engine::in_process(EngineConfig {
        program: "none".into(),
        arguments: Vec::new(),
        backend: Backend::Fake(FakeRates::INSTANT),
        threads: 1,
        slots: 1,
        context_tokens: 8192,
        kv_tokens: 8192,
        kv_type: KvType::default(),
    });
    engine
        .load(ModelFile {
            path: "fake".into(),
            id: MODEL,
            verify: false,
            name: "fake".to_owned(),
            doubles_at: DoublesAt::default(),
        })
        .await?;
    let input = JobInput::Text { prompt: prompt.to_owned() };
    let sampling = Sampling::default();
    let mut stream = engine.submit(EngineJob { model: MODEL, input, sampling, max_tokens, stop: Vec::new() }).await?;
    let mut whole = String::new();
    while let Some(event) = stream.next().await {
        match event {
            SequenceEvent::Token { text, .. } => whole.push_str(&text),
            SequenceEvent::Finished { text, .. } => return Ok(whole + &text),
            SequenceEvent::Failed(failure) => bail!("the fake engine failed: {failure}"),
            SequenceEvent::Accepted { .. }
            | SequenceEvent::Prefilled { .. }
            | SequenceEvent::Held { .. }
            | SequenceEvent::ImportRefused { .. }
            | SequenceEvent::ExtendRefused { .. }
            | SequenceEvent::TakeOverRefused { .. } => {}
        }
    }
    bail!("the fake engine went away")
}
