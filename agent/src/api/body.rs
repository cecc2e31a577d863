//! Bodies: bounded, and malformed ones refused in OpenAI's form.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use super::{Api, ApiError};

/// The JSON in a body, whatever its `Content-Type` says (clients differ).
pub(super) fn parse<T: DeserializeOwned>(api: &Api, body: Result<Bytes, BytesRejection>) -> Result<T, ApiError> {
    let bytes = body.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            ApiError::too_large(api.max_body_bytes)
        } else {
            ApiError::bad_request(None, None, "the request's body could not be read to its end")
        }
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let code = match error.classify() {
            serde_json::error::Category::Data => "invalid_type",
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => "invalid_json",
        };
        ApiError::bad_request(Some(code), None, format!("the request's body cannot be used: {error}"))
    })
}
