//! Whether the process lives, and whether a request could be served. The only routes that need no key; they tell nothing
//! else.

use axum::extract::State;
use axum::http::StatusCode;

use super::Api;
use crate::driver::Readiness;

/// 200 as long as anything answers.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// 200 while some peer that can be reached takes work and has a model; else 503 with the reason.
pub(super) async fn ready(State(api): State<Api>) -> (StatusCode, String) {
    let readiness = api.desk.readiness();
    let is_ready = readiness == Readiness::Ready;
    (if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, format!("{readiness}\n"))
}
