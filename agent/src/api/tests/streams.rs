//! Server-sent events, byte for byte as clients parse them.

use std::time::Duration;

use futures::StreamExt;
use idlewild_protocol::FinishReason;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{PATIENCE, Served, WORKER, answer, hello};
use crate::origin::{Failure, FailureKind, GenerationEvent};

/// The data of each event; comments are left out.
fn events(body: &str) -> Vec<&str> {
    assert!(body.ends_with("\n\n"), "{body:?}");
    body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
}

fn json_of(event: &str) -> Value {
    serde_json::from_str(event).unwrap()
}

#[tokio::test]
async fn how_far_the_prompt_is_read_is_a_comment_that_clients_skip() {
    let mut served = Served::start().await;
    let request = served.post("/v1/chat/completions", hello(&json!({ "stream": true })));
    let mut script = answer();
    script.insert(2, GenerationEvent::Reading { done: 1, total: 3 });
    script.insert(3, GenerationEvent::Reading { done: 3, total: 3 });
    let (response, _) = served.play(request, script).await;
    let body = response.text().await.unwrap();
    assert!(body.contains("\n\n: reading 3 3\n\n"), "{body}");
    assert_eq!(events(&body).len(), 5, "{body}");
}

#[tokio::test]
async fn a_streamed_chat_is_role_then_texts_then_reason_then_done() {
    let mut served = Served::start().await;
    let request = served.post("/v1/chat/completions", hello(&json!({ "stream": true })));
    let (response, submission) = served.play(request, answer()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    assert_eq!(response.headers()["x-idlewild-worker"], WORKER.to_string().as_str());
    let body = response.text().await.unwrap();
    let events = events(&body);
    assert_eq!(events.len(), 5, "{body}");
    let deltas: Vec<Value> = events[..4].iter().map(|event| json_of(event)["choices"][0].clone()).collect();
    let text = |delta: Value| json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null });
    assert_eq!(deltas[0], text(json!({ "role": "assistant", "content": "" })));
    assert_eq!(deltas[1], text(json!({ "content": "Good" })));
    assert_eq!(deltas[2], text(json!({ "content": " day" })));
    assert_eq!(deltas[3], json!({ "index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop" }));
    assert_eq!(events[4], "[DONE]");
    let first = json_of(events[0]);
    assert_eq!((&first["object"], first.get("usage")), (&json!("chat.completion.chunk"), None));
    assert_eq!(first["idlewild"]["request"], json!(submission.request.request));
}

#[tokio::test]
async fn usage_is_a_chunk_without_choices_where_it_is_asked_for() {
    let mut served = Served::start().await;
    let body = json!({ "prompt": "a", "stream": true, "stream_options": { "include_usage": true } });
    let request = served.post("/v1/completions", body.to_string());
    let body = served.play(request, answer()).await.0.text().await.unwrap();
    let events = events(&body);
    assert_eq!(events.len(), 5, "{body}");
    assert!(events[..3].iter().all(|event| json_of(event)["usage"].is_null()));
    let usage = json_of(events[3]);
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["total_tokens"], 5);
    assert_eq!(events[4], "[DONE]");
}

#[tokio::test]
async fn a_failure_after_the_headers_is_an_event_and_the_stream_still_ends_with_done() {
    let mut served = Served::start().await;
    let request = served.post("/v1/chat/completions", hello(&json!({ "stream": true })));
    let failure =
        Failure { kind: FailureKind::GaveUp, message: "tried 3 peers".to_owned(), hint: None, retry_after: None };
    let script = vec![
        GenerationEvent::Prompt { tokens: 1 },
        GenerationEvent::Text("Go".to_owned()),
        GenerationEvent::Failed(failure),
    ];
    let (response, _) = served.play(request, script).await;
    assert_eq!(response.status(), 200);
    let body = response.text().await.unwrap();
    let events = events(&body);
    assert_eq!(json_of(events[2])["error"]["message"], "tried 3 peers");
    assert_eq!(events[3..], ["[DONE]"]);
}

#[tokio::test]
async fn an_origin_that_vanishes_is_an_error_and_not_an_end() {
    let mut served = Served::start().await;
    let request = served.post("/v1/chat/completions", hello(&json!({ "stream": true })));
    let (response, submission) = served.play(request, vec![GenerationEvent::Prompt { tokens: 1 }]).await;
    drop(submission);
    let body = response.text().await.unwrap();
    assert_eq!(json_of(events(&body)[1])["error"]["code"], "shutting_down");
    assert!(body.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn headers_and_comments_come_while_the_first_token_is_awaited() {
    let mut served = Served::start().await;
    let request = served.post("/v1/chat/completions", hello(&json!({ "stream": true })));
    let (response, submission) = served.play(request, vec![GenerationEvent::Placed { worker: WORKER }]).await;
    assert_eq!(response.status(), 200);
    let mut body = response.bytes_stream();
    let mut seen = String::new();
    while !seen.contains("\n:") {
        let piece = timeout(PATIENCE, body.next()).await.unwrap().unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    let done = GenerationEvent::Done { reason: FinishReason::Length, prompt_tokens: 1, output_tokens: 0 };
    submission.events.send(done).await.unwrap();
    let mut rest = String::new();
    while let Some(piece) = body.next().await {
        rest.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_generation_within_a_second() {
    for stream in [true, false] {
        let mut served = Served::start().await;
        let request = served.post("/v1/chat/completions", hello(&json!({ "stream": stream })));
        let sent = tokio::spawn(async move { request.send().await.unwrap().text().await });
        let submission = served.submissions.recv().await.unwrap();
        submission.events.send(GenerationEvent::Prompt { tokens: 1 }).await.unwrap();
        sent.abort();
        timeout(Duration::from_secs(1), submission.events.closed()).await.unwrap();
    }
}
