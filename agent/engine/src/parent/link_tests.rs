//! The child program at the other end of a pipe, frame by frame.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idlewild_protocol::{JobInput, ModelId, Sampling};

use super::*;
use crate::child::pipe;
use crate::job::{Role, SequenceId};
use crate::{Backend, DoublesAt, EngineConfig, EngineJob, FakeRates, KvType, LoadFailure, ModelFile, SequenceEvent};

fn child() -> Child {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples/engine_child");
    assert!(program.exists(), "{} is missing: build the examples of idlewild-engine", program.display());
    Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn configure(backend: Backend) -> EngineCommand {
    let limits = EngineConfig {
        program: "unused".into(),
        arguments: Vec::new(),
        backend,
        threads: 1,
        slots: 1,
        context_tokens: 100,
        kv_tokens: 100,
        kv_type: KvType::F16,
    }
    .limits();
    EngineCommand::Configure { backend, limits }
}

fn load(path: &str) -> EngineCommand {
    let file = ModelFile {
        path: path.into(),
        id: ModelId([1; 32]),
        verify: false,
        name: "m".to_owned(),
        doubles_at: DoublesAt::default(),
    };
    EngineCommand::Load(file)
}

fn submit(id: u64) -> EngineCommand {
    let input = JobInput::Text { prompt: "a b c".to_owned() };
    let job =
        EngineJob { model: ModelId([1; 32]), input, sampling: Sampling::default(), max_tokens: 50, stop: Vec::new() };
    EngineCommand::Submit { id: SequenceId(id), job, beginning: Role::Worker.into() }
}

fn say(child: &mut Child, commands: &[EngineCommand]) {
    for command in commands {
        pipe::write(child.stdin.as_mut().unwrap(), command).unwrap();
    }
}

fn hear(child: &mut Child, mut is_it: impl FnMut(&EngineEvent) -> bool) {
    let stdout = child.stdout.as_mut().unwrap();
    while !is_it(&pipe::read(stdout).unwrap().expect("the child closed its pipe")) {}
}

fn exit_code(mut child: Child, within: Duration) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < within {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("the child still runs after {within:?}");
}

/// One step of this fake takes five minutes.
const SLOW: Backend = Backend::Fake(FakeRates { prefill_tps: 0.0, decode_tps: 1.0 / 300.0, load_ms: 0 });

#[test]
fn a_child_ends_when_its_pipe_closes_though_it_is_in_the_middle_of_a_step() {
    let mut child = child();
    say(&mut child, &[configure(SLOW), load("fake"), submit(1)]);
    let is_accepted = |event: &SequenceEvent| matches!(event, SequenceEvent::Accepted { .. });
    hear(&mut child, |event| matches!(event, EngineEvent::Sequence { event, .. } if is_accepted(event)));
    drop(child.stdin.take());
    assert_eq!(exit_code(child, Duration::from_mins(1)), Some(0));
}

#[test]
fn a_child_that_hears_nonsense_ends_with_an_error() {
    use std::io::Write;
    let mut child = child();
    child.stdin.as_mut().unwrap().write_all(b"\x05\0\0\0nonsense and more").unwrap();
    assert_eq!(exit_code(child, Duration::from_mins(1)), Some(1));
}

#[test]
fn a_load_of_a_missing_file_is_answered_and_the_next_one_works() {
    let mut child = child();
    say(&mut child, &[configure(Backend::Llama), load("/nonexistent/model.gguf")]);
    hear(&mut child, |event| matches!(event, EngineEvent::LoadFailed(LoadFailure::Unreadable(_))));
    say(&mut child, &[configure(Backend::Fake(FakeRates::INSTANT)), load("fake"), submit(1)]);
    hear(&mut child, |event| matches!(event, EngineEvent::Loaded(_)));
    let is_finished = |event: &SequenceEvent| matches!(event, SequenceEvent::Finished { .. });
    hear(&mut child, |event| matches!(event, EngineEvent::Sequence { event, .. } if is_finished(event)));
    drop(child.stdin.take());
    assert_eq!(exit_code(child, Duration::from_mins(1)), Some(0));
}
