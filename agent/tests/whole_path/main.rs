//! The whole path in one process: client, API, origin, coordinator, swarm, worker, engine (the fake one), and back.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod stream;

use std::time::{Duration, Instant};

use idlewild::api::wire::ExplainReply;
use idlewild_protocol::{DepartureCause, FinishReason, PeerId, PlanReason};
use serde_json::{Value, json};

use cluster::{Agent, Nature, ORIGIN, SCRIPTED, WORKER, eventually};
use stream::{Answer, End};

/// An origin that does not work, and two workers, all acquainted.
async fn origin_and_two(nature: Nature) -> (Agent, Agent, Agent) {
    let origin = Agent::start(ORIGIN, &[]).await;
    let one = Agent::start(nature, &[&origin]).await;
    let two = Agent::start(nature, &[&origin, &one]).await;
    for worker in [&one, &two] {
        worker.owner("away");
        for peer in [&origin, &one, &two].into_iter().filter(|peer| peer.peer != worker.peer) {
            peer.sees_serving(worker).await;
        }
    }
    origin.sees(&[&one, &two]).await;
    (origin, one, two)
}

/// Sorts the two workers by whether they run the answer.
fn runner<'a>(answer: &Answer, one: &'a mut Agent, two: &'a mut Agent) -> (&'a mut Agent, &'a mut Agent) {
    if one.peer.to_string() == answer.worker { (one, two) } else { (two, one) }
}

#[tokio::test]
async fn a_request_at_a_peer_that_does_not_work_runs_at_one_that_does() {
    let a = Agent::start(ORIGIN, &[]).await;
    let b = Agent::start(WORKER, &[&a]).await;
    a.sees(&[&b]).await;
    a.sees_serving(&b).await;
    let response = a.chat(20, json!({})).await;
    assert_eq!(response.headers()["x-idlewild-worker"], b.peer.to_string().as_str());
    let request = response.headers()["x-idlewild-request"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["usage"]["completion_tokens"], 20);
    let explained = a.explain(&request).await;
    assert_eq!(explained.assignments.len(), 1);
    assert_eq!((explained.output_tokens, explained.finish), (20, Some(FinishReason::Length)));
    let assignment = &explained.assignments[0];
    assert_eq!(assignment.worker, b.peer);
    let of = |peer| assignment.terms.iter().find(|terms| terms.peer == peer).unwrap();
    assert!(of(b.peer).unfit.is_none() && of(b.peer).service_s > 0.0);
    assert!(of(a.peer).unfit.is_some());
    // The worker's own API serves it as well, through the same code.
    assert_eq!(b.undisturbed(20).await, body["choices"][0]["message"]["content"]);
    let models: Value = a.get("/v1/models").await.json().await.unwrap();
    assert_eq!(models["data"][0]["id"], "fake");
}

#[tokio::test]
async fn an_answer_whose_worker_is_killed_goes_on_elsewhere_as_if_nothing_had_happened() {
    let (origin, mut one, mut two) = origin_and_two(WORKER).await;
    let expected = origin.undisturbed(200).await;
    let mut answer = Answer::of(origin.chat(200, json!({ "stream": true })).await);
    answer.read(40).await;
    let (killed, survivor) = runner(&answer, &mut one, &mut two);
    killed.kill();
    assert_eq!(answer.finish().await, End::Finished("length".to_owned()));
    assert_eq!(answer.text, expected);
    let explained = origin.explain(&answer.request).await;
    assert_eq!(explained.assignments.len(), 2, "{explained:?}");
    assert_eq!(explained.assignments[1].worker, survivor.peer);
    assert!(explained.assignments[1].from_index >= 40);
}

#[tokio::test]
async fn an_answer_moves_when_the_worker_s_owner_returns_or_its_agent_stops() {
    let (origin, mut one, mut two) = origin_and_two(SCRIPTED).await;
    let expected = origin.undisturbed(150).await;
    let mut answer = Answer::of(origin.chat(150, json!({ "stream": true })).await);
    answer.read(30).await;
    let (first, second) = runner(&answer, &mut one, &mut two);
    first.owner("present");
    assert_eq!(answer.finish().await, End::Finished("length".to_owned()));
    assert_eq!(answer.text, expected);
    let explained = origin.explain(&answer.request).await;
    assert!(left_because(&explained, DepartureCause::OwnerReturned), "{explained:?}");
    eventually("its memory is free", || async {
        let status = first.status().await;
        (status.engine.phase == "absent" && status.jobs_running == 0).then_some(())
    })
    .await;
    // Back again: it takes over when the other is told to stop.
    first.owner("away");
    origin.sees_serving(first).await;
    let mut answer = Answer::of(origin.chat(150, json!({ "stream": true })).await);
    answer.read(30).await;
    let (stopped, _) = runner(&answer, first, second);
    stopped.terminate();
    assert_eq!(answer.finish().await, End::Finished("length".to_owned()));
    assert_eq!(answer.text, expected);
    let explained = origin.explain(&answer.request).await;
    assert!(left_because(&explained, DepartureCause::Shutdown), "{explained:?}");
}

/// Whether the first worker left for this cause: by its own word, unless a coordinator's was first, which had heard its notice.
fn left_because(explained: &ExplainReply, cause: DepartureCause) -> bool {
    let first = &explained.assignments[0];
    let noticed = explained.moves.iter().any(|step| step.terms.reason == PlanReason::Notice);
    first.cause == Some(cause) || (first.cause.is_none() && noticed)
}

#[tokio::test]
async fn a_client_that_goes_away_frees_the_engine_of_another_peer_within_a_second() {
    let a = Agent::start(ORIGIN, &[]).await;
    let b = Agent::start(WORKER, &[&a]).await;
    a.sees_serving(&b).await;
    let mut answer = Answer::of(a.chat(2000, json!({ "stream": true })).await);
    answer.read(5).await;
    assert_eq!(b.status().await.engine.running, 1);
    let gone = Instant::now();
    drop(answer);
    eventually("the engine is free", || async { (b.status().await.engine.running == 0).then_some(()) }).await;
    assert!(gone.elapsed() < Duration::from_secs(1), "{:?}", gone.elapsed());
}

#[tokio::test]
async fn a_request_that_nobody_can_take_fails_within_two_seconds_and_says_why() {
    let a = Agent::start(ORIGIN, &[]).await;
    let b = Agent::start(ORIGIN, &[&a]).await;
    a.sees(&[&b]).await;
    for stream in [true, false] {
        let asked = Instant::now();
        let response = a.chat(5, json!({ "stream": stream })).await;
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
        let body: Value = response.json().await.unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        for peer in [&a, &b] {
            assert!(
                message.contains(&format!("{}: takes no work now (its owner, a pause or a rule)", peer.peer.short())),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn a_prompt_longer_than_any_context_is_the_client_s_error() {
    let a = Agent::start(Nature { context_tokens: 64, ..WORKER }, &[]).await;
    let long = "word ".repeat(500);
    let response = a.chat(5, json!({ "messages": [{ "role": "user", "content": long }] })).await;
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "context_length_exceeded");
}

#[tokio::test]
async fn a_killed_coordinator_is_replaced_within_three_seconds_and_disturbs_no_stream() {
    let first = Agent::start(SCRIPTED, &[]).await;
    let second = Agent::start(SCRIPTED, &[&first]).await;
    let third = Agent::start(SCRIPTED, &[&first, &second]).await;
    let mut agents = vec![first, second, third];
    let leader = agreed_leader(&agents).await;
    // Whoever leads does nothing else; of the others one asks and one works.
    let at = agents.iter().position(|agent| agent.peer == leader).unwrap();
    let mut leader = agents.swap_remove(at);
    let (origin, worker) = (&agents[0], &agents[1]);
    worker.owner("away");
    for peer in [&leader, origin] {
        peer.sees_serving(worker).await;
    }
    let mut answer = Answer::of(origin.chat(400, json!({ "stream": true })).await);
    answer.read(5).await;
    let placed = &origin.explain(&answer.request).await.assignments[0];
    assert_eq!(placed.worker, worker.peer);
    leader.kill();
    let killed = Instant::now();
    let next = agreed_leader(&agents).await;
    assert!(killed.elapsed() < Duration::from_secs(3), "{:?}", killed.elapsed());
    assert_ne!(next, leader.peer);
    assert_eq!(answer.finish().await, End::Finished("length".to_owned()));
    assert_eq!(origin.explain(&answer.request).await.assignments.len(), 1);
}

/// Waits until all agree who leads, one of them.
async fn agreed_leader(agents: &[Agent]) -> PeerId {
    eventually("all agree who leads", || async {
        let mut leaders = Vec::new();
        for agent in agents {
            leaders.push(agent.status().await.coordinator?.leader);
        }
        let one = leaders[0];
        let is_agreed = leaders.iter().all(|leader| *leader == one) && agents.iter().any(|agent| agent.peer == one);
        is_agreed.then_some(one)
    })
    .await
}

#[tokio::test]
async fn a_restarted_agent_is_another_boot_and_remembers_its_requests() {
    let mut a = Agent::start(WORKER, &[]).await;
    let b = Agent::start(ORIGIN, &[&a]).await;
    b.sees_serving(&a).await;
    let response = a.chat(5, json!({})).await;
    let request = response.headers()["x-idlewild-request"].to_str().unwrap().to_owned();
    response.text().await.unwrap();
    let boot = a.status().await.boot;
    a.kill();
    eventually("the other notices", || async { b.status().await.peers.is_empty().then_some(()) }).await;
    a.up().await;
    assert!(a.status().await.boot > boot);
    assert_eq!(a.explain(&request).await.output_tokens, 5);
}
