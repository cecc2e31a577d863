//! What a right request gets in one piece, and what reaches the origin of it.

use idlewild_protocol::{JobInput, ModelId, Sampling};
use serde_json::{Value, json};

use super::{Served, WORKER, answer, hello};

#[tokio::test]
async fn a_chat_is_answered_in_openai_s_form_and_names_request_and_worker() {
    let mut served = Served::start().await;
    let request = served.post("/v1/chat/completions", hello(&json!({})));
    let (response, submission) = served.play(request, answer()).await;
    let id = submission.request.request.to_string();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-idlewild-request"], id.as_str());
    assert_eq!(response.headers()["x-idlewild-worker"], WORKER.to_string().as_str());
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["id"], format!("chatcmpl-{}", id.trim_start_matches("req-")));
    assert_eq!(body["model"], "tiny");
    assert_eq!(body["choices"][0]["message"], json!({ "role": "assistant", "content": "Good day", "refusal": null }));
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"], json!({ "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 }));
    assert_eq!(body["idlewild"], json!({ "request": id, "worker": WORKER, "moves": 0 }));
}

#[tokio::test]
async fn a_completion_is_answered_in_openai_s_form() {
    let mut served = Served::start().await;
    let body = json!({ "model": "TINY", "prompt": ["Once"], "max_tokens": 7, "stop": ["\n", ""] });
    let request = served.post("/v1/completions", body.to_string());
    let (response, submission) = served.play(request, answer()).await;
    let body: Value = response.json().await.unwrap();
    assert_eq!((&body["object"], &body["choices"][0]["text"]), (&json!("text_completion"), &json!("Good day")));
    assert_eq!(submission.request.input, JobInput::Text { prompt: "Once".to_owned() });
    assert_eq!((submission.request.max_tokens, submission.request.stop), (7, vec!["\n".to_owned()]));
}

#[tokio::test]
async fn sampling_parameters_reach_the_origin_and_unknown_fields_are_ignored() {
    let mut served = Served::start().await;
    let body = hello(&json!({
        "temperature": 0, "top_p": 0.5, "top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1, "presence_penalty": 1,
        "frequency_penalty": -1, "seed": -1, "max_completion_tokens": 9, "max_tokens": 4, "n": 1, "user": "me",
        "tools": [{ "type": "function" }], "tool_choice": "auto", "stream": null, "made_up": { "a": 1 },
        "response_format": { "type": "text" }, "logprobs": false,
    }));
    let request = served.post("/v1/chat/completions", body);
    let (response, submission) = served.play(request, answer()).await;
    assert_eq!(response.status(), 200);
    let expect = Sampling {
        temperature: 0.0,
        top_k: 40,
        top_p: 0.5,
        min_p: 0.1,
        repeat_penalty: 1.1,
        frequency_penalty: -1.0,
        presence_penalty: 1.0,
        penalty_last_n: 64,
        seed: u64::MAX,
    };
    assert_eq!(submission.request.sampling, expect);
    assert_eq!(submission.request.max_tokens, 9);
}

#[tokio::test]
async fn two_requests_without_a_seed_draw_differently() {
    let mut served = Served::start().await;
    let mut seeds = Vec::new();
    for _ in 0..2 {
        let request = served.post("/v1/chat/completions", hello(&json!({})));
        seeds.push(served.play(request, answer()).await.1.request.sampling.seed);
    }
    assert_ne!(seeds[0], seeds[1]);
}

#[tokio::test]
async fn the_only_model_serves_requests_that_name_none_and_is_listed() {
    let mut served = Served::start().await;
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let request = served.post("/v1/chat/completions", body.to_string());
    assert_eq!(served.play(request, answer()).await.0.status(), 200);
    let list = served.client.get(served.url("/v1/models")).bearer_auth("test-key").send().await.unwrap();
    let list: Value = list.json().await.unwrap();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("tiny")));
    assert_eq!(list["data"][0]["idlewild"]["peers"], json!([WORKER]));
    let one = served.client.get(served.url("/v1/models/tiny")).bearer_auth("test-key").send().await.unwrap();
    assert_eq!(one.json::<Value>().await.unwrap(), list["data"][0]);
    for name in ["ELSEWHERE", "01010101"] {
        let request = served.post("/v1/chat/completions", hello(&json!({ "model": name })));
        let (response, submission) = served.play(request, answer()).await;
        assert_eq!((response.status().as_u16(), submission.request.model), (200, ModelId([1; 32])), "{name}");
    }
}
