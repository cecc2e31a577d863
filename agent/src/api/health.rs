//! Whether the process lives, and whether it takes requests. The only routes that need no key; they tell nothing else.

use axum::extract::State;
use axum::http::StatusCode;

use super::Api;

/// 200 as long as anything answers.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// 200 once the swarm runs and the coordinator can be asked; 503 before.
pub(super) async fn ready(State(api): State<Api>) -> (StatusCode, &'static str) {
    if api.desk.is_ready() { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "starting\n") }
}
