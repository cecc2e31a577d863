//! What the tests of this crate share.

use std::path::PathBuf;
use std::time::Duration;

use idlewild_engine::{
    Backend, DoublesAt, EngineConfig, EngineJob, EngineStream, FakeRates, KvType, ModelFile, SequenceEvent,
};
use idlewild_protocol::{FinishReason, JobInput, ModelId, Sampling, TokenId};
use tokio::time::timeout;

/// Long enough for a machine that compiles something else meanwhile: the child runs at idle priority.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) const MODEL: ModelId = ModelId([7; 32]);

/// The example of this crate that is nothing but the child; cargo builds examples with the tests.
pub(crate) fn child_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples/engine_child");
    assert!(program.exists(), "{} is missing: build the examples of idlewild-engine", program.display());
    program
}

pub(crate) fn fake_config(decode_tps: f32) -> EngineConfig {
    EngineConfig {
        program: child_program(),
        arguments: vec!["--share".to_owned()],
        backend: Backend::Fake(FakeRates { prefill_tps: 0.0, decode_tps, load_ms: 1 }),
        threads: 1,
        slots: 2,
        context_tokens: 4096,
        kv_tokens: 8192,
        kv_type: KvType::F16,
    }
}

pub(crate) fn file(id: ModelId) -> ModelFile {
    ModelFile {
        path: PathBuf::from("fake.gguf"),
        id,
        verify: false,
        name: "fake".to_owned(),
        doubles_at: DoublesAt::default(),
    }
}

pub(crate) fn job(prompt: &str, max_tokens: u32) -> EngineJob {
    EngineJob {
        model: MODEL,
        input: JobInput::Text { prompt: prompt.to_owned() },
        sampling: Sampling::default(),
        max_tokens,
        stop: Vec::new(),
    }
}

pub(crate) fn chat(messages_json: &str, max_tokens: u32) -> EngineJob {
    EngineJob { input: JobInput::Chat { messages_json: messages_json.to_owned() }, ..job("", max_tokens) }
}

/// A job that goes on with an answer.
pub(crate) fn of_ids(prompt: &[TokenId], generated: &[u32], max_tokens: u32) -> EngineJob {
    let generated = generated.iter().map(|id| TokenId(*id)).collect();
    EngineJob { input: JobInput::Tokens { prompt: prompt.to_vec(), generated }, ..job("", max_tokens) }
}

/// Within the deadline, or the test fails.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("too late: {what}"))
}

/// Everything that comes of a stream.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) prompt_tokens: usize,
    pub(crate) ids: Vec<u32>,
    pub(crate) text: String,
    pub(crate) end: Option<SequenceEvent>,
}

impl Answer {
    pub(crate) fn reason(&self) -> Option<FinishReason> {
        match self.end {
            Some(SequenceEvent::Finished { reason, .. }) => Some(reason),
            Some(
                SequenceEvent::Accepted { .. }
                | SequenceEvent::Prefilled { .. }
                | SequenceEvent::Token { .. }
                | SequenceEvent::Held { .. }
                | SequenceEvent::ImportRefused { .. }
                | SequenceEvent::ExtendRefused { .. }
                | SequenceEvent::TakeOverRefused { .. }
                | SequenceEvent::Failed(_),
            )
            | None => None,
        }
    }
}

pub(crate) async fn answer(mut stream: EngineStream) -> Answer {
    let mut answer = Answer::default();
    while let Some(event) = soon("the next event", stream.next()).await {
        match &event {
            SequenceEvent::Accepted { prompt } => answer.prompt_tokens = prompt.len(),
            SequenceEvent::Token { index, id, text } => {
                assert_eq!(*index as usize, answer.ids.len());
                answer.ids.push(id.0);
                answer.text.push_str(text);
            }
            SequenceEvent::Finished { text, .. } => answer.text.push_str(text),
            SequenceEvent::Prefilled { .. }
            | SequenceEvent::Held { .. }
            | SequenceEvent::ImportRefused { .. }
            | SequenceEvent::ExtendRefused { .. }
            | SequenceEvent::TakeOverRefused { .. }
            | SequenceEvent::Failed(_) => {}
        }
        if event.is_last() {
            answer.end = Some(event);
        }
    }
    answer
}

/// Reads until the first token, so that the sequence certainly runs.
pub(crate) async fn first_token(stream: &mut EngineStream) {
    loop {
        match soon("the first token", stream.next()).await {
            Some(SequenceEvent::Token { .. }) => return,
            Some(SequenceEvent::Accepted { .. } | SequenceEvent::Prefilled { .. }) => {}
            other => panic!("no token but {other:?}"),
        }
    }
}

/// Reads until the event is one that `is_it`.
pub(crate) async fn hear(
    what: &str,
    stream: &mut EngineStream,
    mut is_it: impl FnMut(&SequenceEvent) -> bool,
) -> SequenceEvent {
    loop {
        let event = soon(what, stream.next()).await.unwrap_or_else(|| panic!("never: {what}"));
        if is_it(&event) {
            return event;
        }
        assert!(!event.is_last(), "{event:?} before {what}");
    }
}

/// Reads until a standby holds so many tokens; how many of them were imported.
pub(crate) async fn until_held(stream: &mut EngineStream, tokens: u32) -> u32 {
    let is_it = |event: &SequenceEvent| matches!(event, SequenceEvent::Held { tokens: held, .. } if *held >= tokens);
    let held = hear("all is held", stream, is_it).await;
    let SequenceEvent::Held { pulled_tokens, .. } = held else { panic!("{held:?}") };
    pulled_tokens
}

/// Waits until the engine's stats satisfy `is_so`.
pub(crate) async fn until(
    engine: &idlewild_engine::Engine,
    what: &str,
    is_so: impl FnMut(&idlewild_engine::EngineStats) -> bool,
) {
    let mut stats = engine.watch_stats();
    let reached = timeout(DEADLINE, stats.wait_for(is_so)).await.is_ok_and(|reached| reached.is_ok());
    assert!(reached, "never: {what}; last {:?}", engine.stats());
}

/// `IOPRIO_CLASS_IDLE` of linux/ioprio.h.
#[cfg(target_os = "linux")]
pub(crate) const DISK_IDLE: i64 = 3;

/// The class in which a task reads from the disk (proc(5) does not tell); none where there is no such task.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe wrapper reads the class")]
pub(crate) fn disk_class(task: u32) -> Option<i64> {
    const WHO_PROCESS: libc::c_long = 1;
    // SAFETY: takes two numbers and no pointer.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, libc::c_long::from(task)) };
    (priority >= 0).then_some(priority >> 13)
}
