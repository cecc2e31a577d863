//! Errors in the form that OpenAI's clients parse: `{"error": {"message", "type", "param", "code"}}`.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::wire::code;
use crate::origin::{Failure, FailureKind};

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
    retry_after: Option<Duration>,
}

impl ApiError {
    /// The client's own mistake, about `param` where one is to blame.
    pub fn bad_request(code: Option<&'static str>, param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { code, param, ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// Something that is asked for is not here.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(StatusCode::NOT_FOUND, message) }
    }

    /// No key, or a wrong one. Never says which part of it is wrong.
    pub fn unauthorised() -> Self {
        let message = "incorrect API key: send the text of the api-key file in idlewild's state folder as \
                       `Authorization: Bearer <key>` (`idlewild config path` names the file)";
        Self { code: Some(code::BAD_KEY), ..Self::new(StatusCode::UNAUTHORIZED, message) }
    }

    /// It cannot be done as things are.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(StatusCode::CONFLICT, message) }
    }

    /// A page of another origin, or a name that is not ours.
    pub fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(StatusCode::FORBIDDEN, message) }
    }

    /// The body is longer than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("the request's body is longer than the {limit} bytes allowed; send a shorter prompt");
        Self { code: Some("request_too_large"), ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, message) }
    }

    /// Messages or a prompt that take `bytes` where a worker is given at most `limit`.
    pub fn input_too_large(bytes: usize, limit: usize) -> Self {
        let message = format!(
            "what is asked takes {bytes} bytes on its way to a worker, and {limit} are allowed; send a shorter prompt, and \
             no other fields in messages than models read"
        );
        Self { code: Some("request_too_large"), ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, message) }
    }

    /// As many requests are open as may be.
    pub fn too_many(open: usize) -> Self {
        let message = format!("{open} requests are open at this peer already; try again when one has ended");
        Self {
            code: Some("rate_limit_exceeded"),
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// This agent cannot do it now.
    pub fn unavailable(message: impl Into<String>, retry_after: Duration) -> Self {
        Self {
            code: Some("unavailable"),
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }

    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, code: None, param: None, message: message.into(), retry_after: None }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// OpenAI's coarse kinds.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body, also sent in-band when a stream fails after its headers.
    pub fn body(&self) -> Value {
        json!({ "error": { "message": self.message, "type": self.kind(), "param": self.param, "code": self.code } })
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, hint, retry_after } = failure;
        let message = hint.map_or_else(|| message.clone(), |hint| format!("{message}\nhint: {hint}"));
        let (status, code) = match kind {
            FailureKind::NobodyCanServe => (StatusCode::SERVICE_UNAVAILABLE, code::NO_PEER),
            FailureKind::PromptTooLong => (StatusCode::BAD_REQUEST, code::CONTEXT_LENGTH),
            FailureKind::BadInput => (StatusCode::BAD_REQUEST, "invalid_input"),
            FailureKind::GaveUp => (StatusCode::SERVICE_UNAVAILABLE, "request_failed"),
            FailureKind::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
        };
        Self { status, code: Some(code), param: None, message, retry_after }
    }
}

impl From<PathRejection> for ApiError {
    fn from(_: PathRejection) -> Self {
        Self::bad_request(Some("invalid_value"), None, "the URL holds what is no text: its %-escapes must be UTF-8")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs_f64().ceil().max(1.0) as u64));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// For paths that are not served.
pub(super) async fn no_such_route(method: Method, uri: Uri) -> ApiError {
    ApiError::not_found("unknown_url", format!("unknown request URL: {method} {}", uri.path()))
}

/// For paths that are served, with another method.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError {
        code: Some("method_not_allowed"),
        ..ApiError::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not supported on {}", uri.path()))
    }
}
