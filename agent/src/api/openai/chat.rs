//! `POST /v1/chat/completions`.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::Response;
use idlewild_protocol::JobInput;
use serde::Deserialize;
use serde_json::Value;

use super::messages::normalise;
use super::params::{Params, unsupported};
use super::question::{ask, model_for};
use super::reply::Face;
use crate::api::{Api, ApiError, body};

#[derive(Debug, Deserialize)]
struct ChatBody {
    model: Option<String>,
    messages: Vec<Value>,
    /// `auto` (the default) lets the model answer in text, which is what it does here: tools are then not offered to it.
    tool_choice: Option<Value>,
    function_call: Option<Value>,
    response_format: Option<Value>,
    modalities: Option<Vec<String>>,
    #[serde(flatten)]
    params: Params,
}

impl ChatBody {
    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let optional = |choice: &Value| matches!(choice, Value::Null) || choice == "auto" || choice == "none";
        if self.tool_choice.as_ref().is_some_and(|choice| !optional(choice)) {
            let message = "tool calls are not supported yet: `tool_choice` must be \"auto\" or \"none\"";
            return Err(unsupported("tool_choice", message));
        }
        if self.function_call.as_ref().is_some_and(|choice| !optional(choice)) {
            let message = "function calls are not supported: `function_call` must be \"auto\" or \"none\"";
            return Err(unsupported("function_call", message));
        }
        let kind = self.response_format.as_ref().and_then(|format| format.get("type"));
        if kind.is_some_and(|kind| kind != "text") {
            let message = "structured output is not supported yet: `response_format.type` must be \"text\"";
            return Err(unsupported("response_format", message));
        }
        if self.modalities.as_ref().is_some_and(|kinds| kinds.iter().any(|kind| kind != "text")) {
            return Err(unsupported("modalities", "only text is supported"));
        }
        Ok(())
    }
}

/// Answers a conversation.
pub(in crate::api) async fn chat_completions(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body: ChatBody = body::parse(&api, body)?;
    body.refuse_unsupported()?;
    let model = model_for(&api, body.model.as_deref())?;
    let input = JobInput::Chat { messages_json: normalise(body.messages)? };
    ask(&api, Face::Chat, &model, input, &body.params).await
}
