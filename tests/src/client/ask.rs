//! The questions that tests put to the API.

use serde_json::{Value, json};

/// The fake engine's one model.
pub const FAKE_MODEL: &str = "fake";

/// The name under which tests import the small real model.
pub const REAL_MODEL: &str = "smollm2";

/// A body for `/v1/completions`: the likeliest `max_tokens` tokens after `prompt`, streamed, counted.
pub fn completion(model: &str, prompt: &str, max_tokens: u32) -> Value {
    json!({
        "model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
        "stream": true, "stream_options": { "include_usage": true },
    })
}

/// A body for `/v1/chat/completions`, likewise.
pub fn chat(model: &str, question: &str, max_tokens: u32) -> Value {
    json!({
        "model": model, "messages": [{ "role": "user", "content": question }], "max_tokens": max_tokens, "temperature": 0,
        "stream": true, "stream_options": { "include_usage": true },
    })
}
