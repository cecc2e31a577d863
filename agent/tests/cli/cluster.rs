//! Several agents: tickets, `dev cluster`, a prompt that another peer answers.

use std::path::Path;
use std::process::Stdio;

use crate::exit;
use crate::home::{Home, command};

fn run(home: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = command(home, arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Stops a cluster's agents however the test ends.
struct Stop<'a>(&'a Home, &'a str);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(&["dev", "stop", "--dir", self.1]);
    }
}

#[test]
fn a_cluster_s_busy_peer_is_answered_by_another_which_is_explained() {
    let home = Home::new();
    let dir = home.path("cluster");
    let dir = dir.to_str().unwrap();
    let _stop = Stop(&home, dir);
    let arguments = ["dev", "cluster", "--dir", dir, "--peers", "3", "--busy", "1", "--keep", "--json"];
    let started = home.run(&[&arguments[..], &["--set", "engine.backend=fake"]].concat());
    started.check(exit::FINE, &["peer 3 of 3 runs", "dev stop --dir"]);
    let peers = started.json()["peers"].as_array().unwrap().clone();
    assert_eq!(peers.len(), 3);
    assert_eq!((&peers[0]["takes_work"], &peers[2]["takes_work"]), (&false.into(), &true.into()));
    let first = Path::new(peers[0]["home"].as_str().unwrap()).to_owned();
    let (code, out, err) = run(&first, &["run", "hello", "--max-tokens", "6", "--json"]);
    assert_eq!(code, exit::FINE, "{err}");
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    let assignment = &answer["story"]["assignments"][0];
    assert_ne!(assignment["worker"], peers[0]["peer"], "a busy peer took work");
    let terms = assignment["terms"].as_array().unwrap();
    assert_eq!(terms.len(), 3, "the terms of the chosen and the rejected: {assignment}");
    let own = terms.iter().find(|terms| terms["peer"] == peers[0]["peer"]).unwrap();
    assert_eq!(own["unfit"], "owner_present");
    let (code, out, _) = run(&first, &["status"]);
    assert_eq!(code, exit::FINE);
    assert!(out.contains("2 other peers") && out.contains("serving"), "{out}");
    home.run(&["dev", "cluster", "--dir", dir]).check(exit::STATE, &["runs already", "hint: stop it"]);
    home.run(&["dev", "stop", "--dir", dir]).check(exit::FINE, &["3 agents have stopped"]);
    home.run(&["dev", "stop", "--dir", dir]).check(exit::FINE, &["no agent of a cluster runs"]);
}

#[test]
fn a_cluster_s_busy_peer_has_no_model_and_knows_the_others_by_its_name() {
    let home = Home::new();
    let (dir, file) = (home.path("cluster"), home.path("tiny.gguf"));
    std::fs::write(&file, crate::models::gguf(512)).unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    let _stop = Stop(&home, dir);
    let started = home.run(&["dev", "cluster", "--dir", dir, "--peers", "2", "--busy", "1", "--keep", "--model", file]);
    started.check(exit::FINE, &[]);
    assert!(
        started.out.contains("state/api-key") && !started.out.contains("idw-"),
        "keys are not printed: {}",
        started.out
    );
    let first = home.path("cluster/peer-1");
    crate::home::until("it knows the other's model", || {
        let listed: serde_json::Value = serde_json::from_str(&run(&first, &["models", "list", "--json"]).1).unwrap();
        let model = &listed["models"][0];
        (model["name"] == "tiny" && model["here"] == false && model["peers"].as_array().is_some_and(|p| p.len() == 1))
            .then_some(())
    });
    let (_, out, _) = run(&first, &["status"]);
    assert!(out.contains("tiny (") && out.contains("1 other peer)"), "{out}");
}

#[test]
fn a_ticket_lets_one_machine_in_and_says_so_to_the_next() {
    let (founder, newcomer, late) = (Home::new(), Home::new(), Home::new());
    let agent = founder.up(&[]);
    agent.until("listening", |status| status["listeners"].as_array().is_some_and(|list| !list.is_empty()));
    let invited = founder.run(&["invite", "--ttl", "2m"]);
    invited.check(exit::FINE, &["good for one machine within 2 min", "idlewild join"]);
    let ticket = invited.out.trim().to_owned();
    assert!(ticket.starts_with("idlewild1") && !invited.err.contains(&ticket));
    let joined = newcomer.run_with(&["join"], &format!("{ticket}\n"));
    joined.check(exit::FINE, &["joined"]);
    let file = late.path("ticket");
    std::fs::write(&file, &ticket).unwrap();
    late.run(&["join", "--file", file.to_str().unwrap()]).check(exit::FAILED, &["could not join", "has been used"]);
    assert!(!late.path("home/data/membership.json").exists(), "a refused newcomer keeps nothing");
    newcomer.run_with(&["join"], &ticket).check(exit::USAGE, &["a member of that swarm already"]);
    let me = newcomer.run(&["identity", "show", "--json"]).json();
    assert_eq!(me["swarm"], founder.run(&["status", "--json"]).json()["swarm"]);
    let _second = newcomer.up(&["--always-idle"]);
    agent.until("connected to the newcomer", |status| {
        status["peers"].as_array().is_some_and(|peers| peers.iter().any(|peer| peer["peer"] == me["peer"]))
    });
    newcomer.run(&["invite"]).check(exit::FAILED, &["may not invite"]);
    let own = founder.run(&["invite"]).out;
    founder.run(&["down"]).check(exit::FINE, &[]);
    founder.run_with(&["join", "--replace"], &own).check(exit::USAGE, &["this machine's own"]);
}

#[test]
fn a_swarm_that_others_are_in_is_left_only_on_request() {
    let (founder, guest, other) = (Home::new(), Home::new(), Home::new());
    let agent = founder.up(&[]);
    let elsewhere = other.up(&[]);
    for agent in [&agent, &elsewhere] {
        agent.until("listening", |status| status["listeners"].as_array().is_some_and(|list| !list.is_empty()));
    }
    let ticket = |home: &Home| home.run(&["invite"]).out;
    guest.run_with(&["join"], &ticket(&founder)).check(exit::FINE, &[]);
    let refused = guest.run_with(&["join"], &ticket(&other));
    refused.check(exit::USAGE, &["a member of another swarm", "join --replace"]);
    guest.run_with(&["join", "--replace"], &ticket(&other)).check(exit::FINE, &["joined"]);
}

#[test]
fn what_is_no_ticket_is_refused_before_anything_is_made() {
    let home = Home::new();
    for text in ["", "hello", &"x".repeat(20_000)] {
        home.run_with(&["join"], text).check(exit::USAGE, &["not a ticket", "hint: copy the whole line"]);
    }
    home.run_with(&["join"], "idlewild1abc")
        .check(exit::USAGE, &["the ticket is damaged", "hint: copy the whole line"]);
    home.run(&["join", "--file", "/nonexistent/ticket"]).check(exit::USAGE, &["could not read /nonexistent/ticket"]);
    assert!(!home.path("home").exists());
}
