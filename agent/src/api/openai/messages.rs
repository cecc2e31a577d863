//! OpenAI's `messages`, brought to the one form that chat templates know: text content, classic roles.

use serde_json::{Map, Value};

use super::params::unsupported;
use crate::api::ApiError;

/// The JSON array for the model's chat template.
pub(super) fn normalise(messages: Vec<Value>) -> Result<String, ApiError> {
    if messages.is_empty() {
        return Err(invalid("`messages` must hold at least one message"));
    }
    let messages: Vec<Value> =
        messages.into_iter().enumerate().map(|(at, message)| normalise_one(at, message)).collect::<Result<_, _>>()?;
    Ok(Value::Array(messages).to_string())
}

fn normalise_one(at: usize, message: Value) -> Result<Value, ApiError> {
    let Value::Object(mut fields) = message else {
        return Err(invalid(format!("`messages[{at}]` must be an object")));
    };
    let role = match fields.get("role").and_then(Value::as_str) {
        // What newer models call it; templates know it as `system`.
        Some("developer") => "system",
        Some(role @ ("system" | "user" | "assistant" | "tool" | "function")) => role,
        Some(other) => return Err(invalid(format!("`messages[{at}].role` is {other:?}, which is not a known role"))),
        None => return Err(invalid(format!("`messages[{at}].role` is missing"))),
    }
    .to_owned();
    let content = text_of(at, &fields)?;
    fields.insert("role".to_owned(), Value::String(role));
    fields.insert("content".to_owned(), Value::String(content));
    Ok(Value::Object(fields))
}

/// The text of a message's content: a string, or parts of which each is text. Null only beside tool calls.
fn text_of(at: usize, message: &Map<String, Value>) -> Result<String, ApiError> {
    match message.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => parts.iter().map(|part| text_of_part(at, part)).collect(),
        None | Some(Value::Null) if message.contains_key("tool_calls") || message.contains_key("function_call") => {
            Ok(String::new())
        }
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            Err(invalid(format!("`messages[{at}].content` must be text or an array of text parts")))
        }
    }
}

fn text_of_part(at: usize, part: &Value) -> Result<String, ApiError> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    if kind != "text" && kind != "refusal" {
        let message = format!("`messages[{at}].content` has a part of type {kind:?}; only text is supported");
        return Err(unsupported("messages", message));
    }
    part.get(kind)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| invalid(format!("`messages[{at}].content` has a part without text")))
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::bad_request(Some("invalid_value"), Some("messages"), message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(messages: Value, expect: &Value) {
        let Value::Array(messages) = messages else { panic!("an array") };
        let text = normalise(messages).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *expect);
    }

    #[test]
    fn content_becomes_text_and_roles_become_those_that_templates_know() {
        check(
            json!([
                { "role": "developer", "content": "be brief" },
                { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
                { "role": "assistant", "content": null, "tool_calls": [] },
            ]),
            &json!([
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "ab" },
                { "role": "assistant", "content": "", "tool_calls": [] },
            ]),
        );
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_place() {
        for (messages, part) in [
            (json!([]), "at least one"),
            (json!(["hi"]), "messages[0]"),
            (json!([{ "role": "user", "content": "a" }, { "content": "b" }]), "messages[1].role"),
            (json!([{ "role": "king", "content": "a" }]), "king"),
            (json!([{ "role": "user" }]), "messages[0].content"),
            (json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }]), "image_url"),
        ] {
            let Value::Array(messages) = messages else { panic!("an array") };
            let text = normalise(messages).unwrap_err().body().to_string();
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
}
