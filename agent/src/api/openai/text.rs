//! `POST /v1/completions`.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::Response;
use idlewild_protocol::JobInput;
use serde::Deserialize;
use serde_json::Value;

use super::params::{Params, unsupported};
use super::question::{ask, model_for};
use super::reply::Face;
use crate::api::{Api, ApiError, body};

#[derive(Debug, Deserialize)]
struct TextBody {
    model: Option<String>,
    prompt: Value,
    echo: Option<bool>,
    suffix: Option<String>,
    #[serde(flatten)]
    params: Params,
}

/// Goes on with a text.
pub(in crate::api) async fn completions(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body: TextBody = body::parse(&api, body)?;
    if body.echo == Some(true) {
        return Err(unsupported("echo", "`echo` is not supported"));
    }
    if body.suffix.as_deref().is_some_and(|suffix| !suffix.is_empty()) {
        return Err(unsupported("suffix", "`suffix` is not supported"));
    }
    let model = model_for(&api, body.model.as_deref())?;
    let input = JobInput::Text { prompt: one_prompt(body.prompt)? };
    ask(&api, Face::Text, &model, input, &body.params).await
}

/// A text, or an array of one.
fn one_prompt(prompt: Value) -> Result<String, ApiError> {
    let one = match prompt {
        Value::Array(mut prompts) if prompts.len() == 1 => prompts.remove(0),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => other,
    };
    match one {
        Value::String(text) => Ok(text),
        Value::Array(_) | Value::Number(_) => {
            Err(unsupported("prompt", "one prompt of text is supported, neither several nor token ids"))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {
            Err(ApiError::bad_request(Some("invalid_value"), Some("prompt"), "`prompt` must be text"))
        }
    }
}
