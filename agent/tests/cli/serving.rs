//! One agent that works: questions, answers, reasons.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::exit;
use crate::home::{Home, QUIETLY};

#[test]
fn a_prompt_is_answered_on_stdout_and_explained_on_stderr() {
    let home = Home::new();
    let agent = home.up(&["--always-idle"]);
    agent.until("serving", |status| status["state"]["state"] == "serving" && !status["coordinator"].is_null());
    let ended = home.run(&["run", "What is a peer?", "--max-tokens", "8", "--temperature", "0", "--stats"]);
    ended.check(exit::FINE, &["answered by ", "(req-", "because E = ", "8 of answer"]);
    assert!(ended.err.starts_with("warning: the answer was cut at 8 tokens, as --max-tokens says\n"), "{}", ended.err);
    assert_eq!(ended.out.split_whitespace().count(), 8, "{}", ended.out);
    assert!(ended.out.ends_with('\n'));
    let quiet = home.run_with(&["run", "-", "--max-tokens", "8", "--temperature", "0", "--quiet"], "What is a peer?");
    quiet.check(exit::FINE, &[]);
    assert_eq!((quiet.out, quiet.err.as_str()), (ended.out, ""), "the same prompt by stdin is answered the same");
    let explained = home.run(&["explain"]);
    explained.check(exit::FINE, &[]);
    for word in ["request  req-", "model    fake", "tokens from 0 on ", "LEAVES", "  >  "] {
        assert!(explained.out.contains(word), "{word:?} is missing in {}", explained.out);
    }
    let whole = home.run(&["run", "hi", "--max-tokens", "4", "--json"]).json();
    assert_eq!((&whole["finish_reason"], &whole["usage"]["completion_tokens"]), (&"length".into(), &4.into()));
    let request = whole["story"]["request"].as_str().unwrap();
    let story = home.run(&["explain", request, "--json"]).json();
    assert_eq!((&story["request"], &story["output_tokens"]), (&request.into(), &4.into()));
    assert!(!story.to_string().contains("\"hi\""), "a prompt is never kept");
}

#[test]
fn refusals_have_their_own_exit_codes() {
    let home = Home::new();
    let _agent = home.up(&[]);
    home.run(&["run", "hi", "--model", "gpt-9"]).check(exit::NOT_FOUND, &["gpt-9", "hint: `idlewild models list`"]);
    // Nobody says that the owner is away: this peer takes no work, and there is no other.
    home.run(&["run", "hi", "--model", "fake"])
        .check(exit::NO_PEER, &["hint: `idlewild rules` says what keeps this peer"]);
    home.run(&["explain", "req-aaaaaaaaaaaaaaaaaaaaaaaaaa"]).check(exit::NOT_FOUND, &["no record"]);
    home.run(&["explain", "../status"]).check(exit::USAGE, &["is not a request"]);
    std::fs::remove_file(home.path("home/state/api-key")).unwrap();
    home.run(&["status"]).check(exit::STATE, &["its key is gone", "api-key", "hint: for a new key restart it"]);
    home.run(&["down"]).check(exit::FINE, &[]);
    home.run(&["status"]).check(exit::NO_AGENT, &["no agent is running"]);
}

#[test]
fn a_parameter_out_of_its_range_is_a_usage_error_wherever_it_is_found() {
    let home = Home::new();
    let agent = home.up(&["--always-idle"]);
    agent.until("serving", |status| status["state"]["state"] == "serving");
    for (flag, value, part) in [
        ("--temperature", "9", "between 0 and 2"),
        ("--temperature", "x", "invalid"),
        ("--max-tokens", "0", "1 or more"),
    ] {
        home.run(&["run", "hi", flag, value]).check(exit::USAGE, &[part]);
    }
}

#[test]
fn an_agent_that_was_asked_nothing_says_where_its_requests_are_explained() {
    let home = Home::new();
    let _agent = home.up(&[]);
    home.run(&["explain"])
        .check(exit::NOT_FOUND, &["nothing has been asked at this peer yet", "hint: ", "where it was asked"]);
}

#[test]
fn an_owner_script_begins_and_ends_sessions() {
    let home = Home::new();
    let script = home.path("home/state/owner-control");
    let agent = home.up(&["--set", "owner.source=scripted"]);
    agent.until("busy", |status| status["state"]["state"] == "busy");
    std::fs::write(&script, "away\n").unwrap();
    agent.until("serving", |status| status["state"]["state"] == "serving");
    std::fs::write(&script, "away\npresent\n").unwrap();
    let status = agent.until("busy again", |status| status["state"]["state"] == "busy");
    assert!(status["session_age_s"].is_null());
    agent.until("with its session on record", |status| status["sessions_recorded"] == 1);
}

#[test]
fn a_reader_that_goes_away_cancels_the_request() {
    let home = Home::new();
    let agent = home.up(&["--always-idle", "--set", "engine.fake_decode_tps=20"]);
    agent.until("serving", |status| status["state"]["state"] == "serving");
    let mut command = home.command(&["run", "tell me everything", "--max-tokens", "2000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_until(b' ', &mut Vec::new()).unwrap();
    agent.until("working on it", |status| status["jobs_running"] == 1);
    drop(out);
    assert_eq!(child.wait().unwrap().code(), Some(exit::PIPE_CLOSED));
    agent.until("idle again", |status| status["jobs_running"] == 0 && status["requests_running"] == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn tls_keys_are_never_written_where_the_environment_says() {
    let home = Home::new();
    let agent = home.up(&["--always-idle"]);
    agent.until("serving", |status| status["state"]["state"] == "serving");
    home.run(&["run", "hi", "--max-tokens", "1"]).check(exit::FINE, &[]);
    let status = agent.until("with an engine", |status| status["engine"]["pid"].is_u64());
    let environment = std::fs::read(format!("/proc/{}/environ", status["engine"]["pid"])).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("SSLKEYLOGFILE"), "the engine inherited it");
    assert!(!home.path("tls-keys").exists());
}

#[test]
fn a_detached_agent_answers_when_its_command_returns() {
    let home = Home::new();
    let started = home.run(&[&QUIETLY[..], &["--detach"]].concat());
    started.check(exit::FINE, &["the agent runs (pid "]);
    assert!(started.out.starts_with("http://127.0.0.1:") && started.out.ends_with("/v1\n"), "{}", started.out);
    home.run(&["status"]).check(exit::FINE, &[]);
    home.run(&["down"]).check(exit::FINE, &["the agent has stopped"]);
    home.run(&["status"]).check(exit::NO_AGENT, &[]);
    let failed = home.run(&[&QUIETLY[..], &["--detach", "--api-address", "192.0.2.1"]].concat());
    failed.check(exit::USAGE, &["the agent did not start:\nerror: ", "192.0.2.1", "hint: its log is "]);
    assert!(!failed.err.contains("goodbye"), "words of an earlier agent: {}", failed.err);
}

#[test]
fn a_second_detached_agent_of_one_home_fails_and_leaves_the_first() {
    let home = Home::new();
    home.run(&[&QUIETLY[..], &["--detach"]].concat()).check(exit::FINE, &[]);
    let pid = std::fs::read_to_string(home.path("home/state/agent.json")).unwrap();
    for _ in 0..5 {
        let second = home.run(&[&QUIETLY[..], &["--detach"]].concat());
        second.check(exit::STATE, &["an agent runs already", "`idlewild down` stops it"]);
    }
    assert_eq!(std::fs::read_to_string(home.path("home/state/agent.json")).unwrap(), pid);
    home.run(&["down"]).check(exit::FINE, &[]);
}

#[test]
fn down_stops_the_agent_that_it_found_and_no_later_one() {
    let home = Home::new();
    let first = home.up(&[]);
    let mut down = home.command(&["down"]).stderr(Stdio::null()).spawn().unwrap();
    first.wait();
    let second = home.up(&[]);
    assert_eq!(down.wait().unwrap().code(), Some(exit::FINE));
    second.until("there still", |_| true);
}

#[test]
fn the_doctor_of_a_machine_that_is_always_idle_says_that_nothing_is_looked_at() {
    let home = Home::new();
    let _agent = home.up(&["--always-idle"]);
    let ended = home.run(&["doctor"]);
    ended.check(exit::FINE, &["hint: for a machine that somebody uses remove --always-idle"]);
    assert!(ended.out.starts_with("source  always_idle, "), "{}", ended.out);
    let told = home.run(&["doctor", "--json"]).json();
    assert_eq!((&told["source"], &told["layers"]), (&"always_idle".into(), &serde_json::json!([])));
}
