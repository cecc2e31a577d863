//! The supervisor with real child processes around the fake model.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "these tests use a part")]
mod support;

use std::path::PathBuf;
use std::time::Duration;

use idlewild_engine::{Engine, EngineConfig, EngineError, EngineNotice, EnginePhase, SequenceEvent};
use idlewild_protocol::{FinishReason, JobFailure, ModelId};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use support::{MODEL, answer, fake_config, file, first_token, job, soon, until};

fn process(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

fn is_alive(pid: u32) -> bool {
    test_kill_process(process(pid)).is_ok()
}

async fn until_dead(pid: u32) {
    soon("the child's end", async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn started(config: EngineConfig) -> (Engine, tokio::sync::mpsc::Receiver<EngineNotice>) {
    let (engine, notices) = Engine::start(config);
    soon("the load", engine.load(file(MODEL))).await.unwrap();
    (engine, notices)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_answers_and_reports() {
    let (engine, _notices) = Engine::start(fake_config(0.0));
    assert_eq!((engine.pid(), engine.stats().phase), (None, EnginePhase::Absent));
    let loaded = soon("the load", engine.load(file(MODEL))).await.unwrap();
    assert_eq!((loaded.id, loaded.context_tokens, loaded.vocabulary), (MODEL, 4096, 1024));
    let answer = answer(engine.submit(job("one two", 20)).await.unwrap()).await;
    assert_eq!((answer.ids.len(), answer.reason()), (20, Some(FinishReason::Length)));
    until(&engine, "idle with all cells free", |s| s.running == 0 && s.kv_free_tokens == 8192).await;
    let stats = engine.stats();
    assert_eq!((stats.phase, stats.slots, stats.restarts), (EnginePhase::Ready, 2, 0));
    assert_eq!(stats.pid, engine.pid());
    assert!(stats.decode_tps > 0.0 && stats.prefill_tps > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_is_killed_comes_back_twenty_times() {
    let (engine, mut notices) = started(fake_config(500.0)).await;
    let (mut before, mut too_early) = (None, 0);
    for round in 1..=20 {
        let whole = answer(engine.submit(job("short", 3)).await.unwrap()).await;
        assert_eq!(whole.ids.len(), 3, "round {round}");
        let mut stream = engine.submit(job("long", 4000)).await.unwrap();
        first_token(&mut stream).await;
        let pid = engine.pid().unwrap();
        assert_ne!(Some(pid), before, "a new child each time");
        before = Some(pid);
        kill_process(process(pid), Signal::KILL).unwrap();
        let end = answer_end(stream).await;
        assert!(matches!(&end, SequenceEvent::Failed(JobFailure::Engine(how)) if how.contains('9')), "{end:?}");
        // The pause is of a fifth of a second: on a busy machine it may be over.
        match engine.submit(job("too early", 3)).await {
            Err(EngineError::BackingOff { .. }) => too_early += 1,
            Ok(stream) => assert_eq!(answer(stream).await.ids.len(), 3, "round {round}"),
            Err(other) => panic!("round {round}: {other}"),
        }
        let exited = soon("the exit's notice", notices.recv()).await.unwrap();
        assert!(matches!(&exited, EngineNotice::Exited { pid: Some(p), restart_in: Some(_), .. } if *p == pid));
        let again = soon("the restart's notice", notices.recv()).await.unwrap();
        assert!(matches!(again, EngineNotice::Restarted { pid: Some(p) } if p != pid), "{again:?}");
    }
    assert_eq!(engine.stats().restarts, 20);
    assert!(too_early > 0, "twenty pauses that nobody met");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_child_s_libraries_print_is_no_frame() {
    let (engine, _notices) = started(fake_config(0.0)).await;
    let pid = engine.pid().unwrap();
    let of_child = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    std::fs::write(of_child("fd/1"), "[New LWP 7]\n").unwrap();
    let whole = answer(engine.submit(job("short", 3)).await.unwrap()).await;
    assert_eq!((whole.ids.len(), engine.pid(), engine.stats().restarts), (3, Some(pid), 0));
    let environment = std::fs::read(of_child("environ")).unwrap();
    assert!(environment.split(|byte| *byte == 0).any(|variable| variable == b"GGML_NO_BACKTRACE=1"));
}

async fn answer_end(mut stream: idlewild_engine::EngineStream) -> SequenceEvent {
    loop {
        let event = soon("the end", stream.next()).await.unwrap();
        if event.is_last() {
            assert_eq!(stream.next().await, None);
            return event;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_engine_is_gone_and_the_next_job_starts_another() {
    let (engine, _notices) = started(fake_config(100.0)).await;
    let mut stream = engine.submit(job("long", 4000)).await.unwrap();
    first_token(&mut stream).await;
    let pid = engine.pid().unwrap();
    soon("the end", engine.stop()).await;
    assert!(!is_alive(pid), "stop returns when the child is gone");
    assert_eq!((engine.pid(), engine.stats().phase), (None, EnginePhase::Absent));
    assert_eq!(answer_end(stream).await, SequenceEvent::Failed(JobFailure::Leaving));
    let whole = answer(engine.submit(job("short", 3)).await.unwrap()).await;
    assert_eq!(whole.ids.len(), 3);
    assert_eq!(engine.stats().restarts, 0, "a stop is no death");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_child_goes_with_the_last_handle() {
    let (engine, notices) = started(fake_config(100.0)).await;
    let mut stream = engine.submit(job("long", 4000)).await.unwrap();
    first_token(&mut stream).await;
    let pid = engine.pid().unwrap();
    drop((engine, notices));
    assert_eq!(answer_end(stream).await, SequenceEvent::Failed(JobFailure::Leaving));
    until_dead(pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_are_no_engine_are_told_apart() {
    let cases = [
        ("/nonexistent/engine", vec![], "Spawn"),
        ("/bin/sh", vec!["-c", "exit 3"], "3"),
        ("/bin/echo", vec!["hello world"], "longer"),
    ];
    for (program, arguments, expected) in cases {
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        let (engine, _notices) =
            Engine::start(EngineConfig { program: PathBuf::from(program), arguments, ..fake_config(0.0) });
        let error = soon("the refusal", engine.load(file(MODEL))).await.unwrap_err();
        assert!(format!("{error:?}").contains(expected), "{program}: {error:?}");
        let refusal = soon("the answer", engine.submit(job("a", 1))).await.unwrap_err();
        assert!(matches!(refusal, EngineError::NoModel), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_dies_while_it_restarts_is_tried_again_after_a_longer_pause() {
    // The first child is an engine; every later one dies at once.
    let flag = tempfile::NamedTempFile::new().unwrap();
    let script =
        format!("test -e {0} && rm {0} && exec {1}; exit 7", flag.path().display(), support::child_program().display());
    let config = EngineConfig {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), script],
        ..fake_config(0.0)
    };
    let (engine, mut notices) = started(config).await;
    kill_process(process(engine.pid().unwrap()), Signal::KILL).unwrap();
    for death in 0..3 {
        let notice = soon("a notice", notices.recv()).await.unwrap();
        let EngineNotice::Exited { how, restart_in: Some(pause), .. } = &notice else { panic!("{death}: {notice:?}") };
        assert!(how.contains(if death == 0 { '9' } else { '7' }), "{how}");
        assert!(*pause >= Duration::from_millis(200 << death), "{death}: {pause:?}");
    }
    engine.stop().await;
    // A fourth may have died meanwhile.
    let more = std::iter::from_fn(|| notices.try_recv().ok());
    let more = more.filter(|notice| matches!(notice, EngineNotice::Exited { .. })).count();
    assert_eq!(engine.stats().restarts as usize, 3 + more);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_child_uses_no_processor_time() {
    let ticks = |pid| -> u64 {
        let fields = stat(pid);
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (engine, _notices) = started(fake_config(0.0)).await;
    assert_eq!(answer(engine.submit(job("short", 3)).await.unwrap()).await.ids.len(), 3);
    until(&engine, "idle", |s| s.running == 0).await;
    let pid = engine.pid().unwrap();
    let before = ticks(pid);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(ticks(pid) - before <= 1, "an idle child worked for {} ticks", ticks(pid) - before);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_child_runs_at_the_lowest_priority() {
    let (engine, _notices) = started(EngineConfig { arguments: Vec::new(), ..fake_config(0.0) }).await;
    let pid = engine.pid().unwrap();
    assert!(is_idle_class(pid), "{:?}", stat(pid));
    assert_eq!(support::disk_class(pid), Some(support::DISK_IDLE));
    // Field 6: a session of its own, whose tasks are at nice 19 as a group where the kernel makes groups of sessions.
    assert_eq!(stat(pid)[3], pid.to_string());
    match std::fs::read_to_string(format!("/proc/{pid}/autogroup")) {
        Ok(group) => assert!(group.trim().ends_with("nice 19"), "{group}"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
    // One that is to share has the weight of any session.
    let (engine, _notices) = started(fake_config(0.0)).await;
    let pid = engine.pid().unwrap();
    assert!(!is_idle_class(pid), "{:?}", stat(pid));
    if let Ok(group) = std::fs::read_to_string(format!("/proc/{pid}/autogroup")) {
        assert!(group.trim().ends_with("nice 0"), "{group}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_has_no_session_of_its_own_leaves_the_one_it_is_in_alone() {
    // A shell between the two that goes on: its session is its own, and the child is in it.
    let script = format!("{}; true", support::child_program().display());
    let config = EngineConfig {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), script],
        ..fake_config(0.0)
    };
    let (engine, _notices) = started(config).await;
    let shell = engine.pid().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let child = children.trim().parse().unwrap();
    assert!(is_idle_class(child) && !is_idle_class(shell), "{:?}", stat(child));
    if let Ok(group) = std::fs::read_to_string(format!("/proc/{shell}/autogroup")) {
        assert!(group.trim().ends_with("nice 0"), "{group}");
    }
}

/// Fields of proc(5)'s stat from the third on.
#[cfg(target_os = "linux")]
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().unwrap().split_whitespace().map(str::to_owned).collect()
}

#[cfg(target_os = "linux")]
fn is_idle_class(pid: u32) -> bool {
    // Fields 19 (nice) and 41 (policy).
    let fields = stat(pid);
    fields.get(16).is_some_and(|nice| nice == "19") && fields.get(38).is_some_and(|policy| policy == "5")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_child_dies_with_a_killed_parent_though_its_pipe_stays_open() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let script = format!("exec 3<&0; {} <&3 & echo $!; wait", support::child_program().display());
    let mut shell =
        Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = line.trim().parse().unwrap();
    // It lowers its priority last, after it has tied its life to its parent's.
    soon("the child's priority", async {
        while !is_idle_class(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let pipe = shell.stdin.take();
    shell.kill().unwrap();
    shell.wait().unwrap();
    soon("the child's end", async {
        // An orphan may stay as a zombie where nobody reaps it.
        while stat(pid).first().is_some_and(|state| state != "Z") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    drop(pipe);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_is_loaded_when_nobody_uses_the_first() {
    let other = ModelId([8; 32]);
    let (engine, _notices) = started(fake_config(100.0)).await;
    let mut stream = engine.submit(job("long", 4000)).await.unwrap();
    first_token(&mut stream).await;
    let second = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.load(file(other)).await })
    };
    soon("the second load's turn", async {
        while !matches!(engine.submit(job("a", 1)).await, Err(EngineError::Busy)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(matches!(engine.load(file(ModelId([9; 32]))).await, Err(EngineError::Busy)));
    assert!(!second.is_finished());
    drop(stream);
    assert_eq!(soon("the second load", second).await.unwrap().unwrap().id, other);
    assert!(matches!(engine.submit(job("a", 1)).await, Err(EngineError::OtherModel)));
}
