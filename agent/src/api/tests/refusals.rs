//! Every way to be refused: status, form, and what the message says.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{KEY, Served, answer, hello};
use crate::api::server::Limits;
use crate::driver::Readiness;
use crate::origin::{Failure, FailureKind, GenerationEvent};

async fn check(request: RequestBuilder, status: u16, code: &str, part: &str) {
    check_param(request, status, code, None, part).await;
}

async fn check_param(request: RequestBuilder, status: u16, code: &str, param: Option<&str>, part: &str) {
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), status, "{part}");
    let body: Value = response.json().await.unwrap();
    let error = body["error"].as_object().unwrap();
    assert_eq!(error.keys().map(String::as_str).collect::<Vec<_>>(), ["code", "message", "param", "type"]);
    assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{part}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(part), "{message:?} lacks {part:?}");
}

#[tokio::test]
async fn every_route_but_health_and_readiness_wants_the_key() {
    let served = Served::start().await;
    for path in ["/v1/models", "/v1/nothing", "/", "/idlewild/v1/status", "/idlewild/v1/explain/x", "/v1/models/tiny"] {
        let url = served.url(path);
        check(served.client.get(&url), 401, "invalid_api_key", "API key").await;
        check(served.client.get(&url).bearer_auth("test-kez"), 401, "invalid_api_key", "API key").await;
        check(served.client.get(&url).basic_auth("test-key", Some(KEY)), 401, "invalid_api_key", "API key").await;
    }
    for path in ["/v1/chat/completions", "/v1/completions", "/idlewild/v1/stop", "/idlewild/v1/invite"] {
        check(served.client.post(served.url(path)).body("{}"), 401, "invalid_api_key", "API key").await;
    }
    let get = |path: &str| served.client.get(served.url(path)).send();
    assert_eq!(get("/health").await.unwrap().status(), 200);
    assert_eq!(get("/ready").await.unwrap().status(), 503);
}

#[tokio::test]
async fn readiness_is_a_status_and_says_what_is_missing() {
    let served = Served::start().await;
    for (readiness, status, part) in [
        (Readiness::Starting, 503, "starting"),
        (Readiness::NoModel, 503, "idlewild models import"),
        (Readiness::NobodyServes, 503, "takes work"),
        (Readiness::Ready, 200, "ready"),
        (Readiness::Stopping, 503, "stopping"),
    ] {
        served.back.ready.send_replace(readiness);
        let reply = served.client.get(served.url("/ready")).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{readiness:?}");
        let text = reply.text().await.unwrap();
        assert!(text.contains(part), "{readiness:?}: {text}");
    }
}

#[tokio::test]
async fn names_and_pages_that_are_not_ours_are_refused_even_with_the_key() {
    let served = Served::start().await;
    let get = || served.client.get(served.url("/v1/models")).bearer_auth(KEY);
    check(get().header("host", "evil.example"), 403, "host_not_allowed", "Host").await;
    check(get().header("origin", "https://evil.example"), 403, "origin_not_allowed", "origins").await;
    check(get().header("origin", "null"), 403, "origin_not_allowed", "origins").await;
    check(get().header("host", "localhost:x@evil.example"), 403, "host_not_allowed", "Host").await;
    check(get().header("origin", "http://localhost:x@evil.example"), 403, "origin_not_allowed", "origins").await;
    let two = get().header("origin", "http://localhost").header("origin", "http://evil.example");
    check(two, 403, "origin_not_allowed", "origins").await;
    let ours = get().header("origin", "http://localhost:14353").send().await.unwrap();
    assert_eq!(ours.status(), 200);
    assert!(ours.headers().keys().all(|name| !name.as_str().starts_with("access-control-")));
}

#[tokio::test]
async fn bad_bodies_say_what_is_wrong_with_them() {
    let served = Served::start().await;
    let of_no_param = [("messages", json!("hi"), "sequence"), ("temperature", json!("hot"), "hot")];
    for (field, value, part) in of_no_param {
        let body = hello(&json!({ field: value }));
        check(served.post("/v1/chat/completions", body), 400, "invalid_type", part).await;
    }
    let cases: [(&str, Value, &str, &str); 11] = [
        ("invalid_value", json!({ "temperature": 2.1 }), "temperature", "between 0 and 2"),
        ("invalid_value", json!({ "top_p": -0.1 }), "top_p", "between 0 and 1"),
        ("invalid_value", json!({ "max_tokens": 0 }), "max_tokens", "1 or more"),
        ("invalid_value", json!({ "seed": 1.5 }), "seed", "integer"),
        ("invalid_value", json!({ "stop": vec!["x"; 17] }), "stop", "at most 16"),
        ("invalid_value", json!({ "messages": [] }), "messages", "at least one"),
        ("unsupported_parameter", json!({ "n": 2 }), "n", "must be 1"),
        ("unsupported_parameter", json!({ "logprobs": true }), "logprobs", "not supported"),
        ("unsupported_parameter", json!({ "tool_choice": "required" }), "tool_choice", "tool calls"),
        ("unsupported_parameter", json!({ "response_format": { "type": "json_object" } }), "response_format", "text"),
        ("unsupported_parameter", json!({ "logit_bias": { "1": 2 } }), "logit_bias", "not supported"),
    ];
    for (code, change, param, part) in cases {
        let request = served.post("/v1/chat/completions", hello(&change));
        check_param(request, 400, code, Some(param), part).await;
    }
    check(served.post("/v1/chat/completions", "{\"model\":"), 400, "invalid_json", "EOF").await;
    check(served.post("/v1/chat/completions", "{}"), 400, "invalid_type", "messages").await;
    let two = json!({ "prompt": ["a", "b"] }).to_string();
    check_param(served.post("/v1/completions", two), 400, "unsupported_parameter", Some("prompt"), "one prompt").await;
    let ids = json!({ "prompt": [1, 2] }).to_string();
    check_param(served.post("/v1/completions", ids), 400, "unsupported_parameter", Some("prompt"), "one prompt").await;
}

#[tokio::test]
async fn wrong_models_routes_methods_and_sizes_have_their_own_status() {
    let served = Served::start().await;
    let other = hello(&json!({ "model": "gpt-4" }));
    check(served.post("/v1/chat/completions", other), 404, "model_not_found", "models here: tiny").await;
    let get = |path: &str| served.client.get(served.url(path)).bearer_auth(KEY);
    check(get("/v1/models/none"), 404, "model_not_found", "none").await;
    check(get("/v1/models/%ff"), 400, "invalid_value", "UTF-8").await;
    check(get("/idlewild/v1/explain/%ff"), 400, "invalid_value", "UTF-8").await;
    check(get("/v1/embeddings"), 404, "unknown_url", "/v1/embeddings").await;
    check(get("/v1/chat/completions"), 405, "method_not_allowed", "GET").await;
    // The second is longer than what a socket takes at once: its client is still sending when it is refused.
    for length in [10_001, 8_000_000] {
        let long = hello(&json!({ "user": "x".repeat(length) }));
        check(served.post("/v1/chat/completions", long), 413, "request_too_large", "10000").await;
    }
    let explain = get("/idlewild/v1/explain/none");
    check_param(explain, 400, "invalid_value", Some("request"), "request id").await;
    let unknown = idlewild_protocol::RequestId([7; 16]);
    check(get(&format!("/idlewild/v1/explain/{unknown}")), 404, "unknown_request", "no record").await;
}

#[tokio::test]
async fn what_grows_beyond_a_job_s_start_when_it_is_written_again_is_refused() {
    let mut served = Served::start_with(Limits::default(), 2_000_000).await;
    let body = |numbers: usize| {
        let many = vec!["1e15"; numbers].join(",");
        format!(r#"{{"messages":[{{"role":"user","content":"hi","y":[{many}]}}]}}"#)
    };
    check(served.post("/v1/chat/completions", body(130_000)), 413, "request_too_large", "on its way to a worker").await;
    let (response, _) = served.play(served.post("/v1/chat/completions", body(100_000)), answer()).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn before_the_models_are_known_a_model_is_not_said_to_be_missing() {
    let served = Served::start().await;
    served.back.catalogue.send_replace(Arc::default());
    for body in [hello(&json!({})), hello(&json!({ "model": null }))] {
        let response = served.post("/v1/chat/completions", body).send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    }
    served.back.ready.send_replace(Readiness::NoModel);
    let request = served.post("/v1/chat/completions", hello(&json!({})));
    check(request, 404, "model_not_found", "no peer of this swarm has a model yet").await;
}

#[tokio::test]
async fn failures_before_the_first_word_are_statuses_for_streams_too() {
    let mut served = Served::start().await;
    let cases = [
        (FailureKind::NobodyCanServe, 503, "no_peer", Some(7)),
        (FailureKind::PromptTooLong, 400, "context_length_exceeded", None),
        (FailureKind::BadInput, 400, "invalid_input", None),
        (FailureKind::GaveUp, 503, "request_failed", Some(1)),
    ];
    for (kind, status, code, retry_s) in cases {
        for stream in [true, false] {
            let request = served.post("/v1/chat/completions", hello(&json!({ "stream": stream })));
            let retry_after = retry_s.map(Duration::from_secs);
            let failure = Failure { kind, message: "B is busy".to_owned(), hint: Some("wait"), retry_after };
            let (response, submission) = served.play(request, vec![GenerationEvent::Failed(failure)]).await;
            assert_eq!(response.status().as_u16(), status);
            let request = submission.request.request.to_string();
            assert_eq!(response.headers()["x-idlewild-request"], request.as_str());
            let header = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(header, retry_s.map(|s| s.to_string()));
            let body: Value = response.json().await.unwrap();
            assert_eq!(
                (&body["error"]["code"], &body["error"]["message"]),
                (&json!(code), &json!("B is busy\nhint: wait"))
            );
        }
    }
}

#[tokio::test]
async fn more_requests_than_may_be_open_are_told_to_come_again() {
    let mut served = Served::start().await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let request = served.post("/v1/chat/completions", hello(&json!({})));
        open.push((tokio::spawn(request.send()), served.submissions.recv().await.unwrap()));
    }
    let third = served.post("/v1/chat/completions", hello(&json!({}))).send().await.unwrap();
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(third.headers()["retry-after"], "1");
}
