//! The local HTTP face: OpenAI's API for clients, and control routes for this machine's own command line.
//!
//! ```text
//! connection (server, room) --> guard (Host, Origin, key) --> openai/  --> origin::Origins --> events --> JSON or SSE
//!                                                        \--> control --> driver::Desk
//! ```
//!
//! Everything that a handler needs is in [`Api`], so that tests serve it over a scripted origin.
//!
//! Deliberately absent: CORS headers (no web page of another origin has business here), TLS (the default bind is
//! loopback), and any decision about where a request runs.

mod body;
mod control;
mod error;
mod guard;
mod health;
mod openai;
mod room;
mod server;
#[cfg(test)]
mod tests;
pub mod wire;

use std::future::Future;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use tokio::net::TcpListener;

pub use error::ApiError;
pub use guard::{ApiKey, EmptyKey, Hosts};

use crate::driver::Desk;
use crate::origin::Origins;

/// All that the handlers work with.
#[derive(Clone)]
pub struct Api {
    /// What a client must show.
    pub key: ApiKey,
    /// Which `Host` headers are ours.
    pub hosts: Hosts,
    /// Takes requests.
    pub origins: Origins,
    /// Answers questions about this agent.
    pub desk: Desk,
    /// The most bytes of a request's body. What becomes of it must fit a job's start besides ([`MAX_INPUT_BYTES`]).
    ///
    /// [`MAX_INPUT_BYTES`]: idlewild_protocol::MAX_INPUT_BYTES
    pub max_body_bytes: usize,
    /// The model of a request that names none; none means the only one there is.
    pub default_model: Option<String>,
}

/// The routes, guarded.
pub fn router(api: Api) -> Router {
    let guarded = Router::new()
        .route("/v1/chat/completions", post(openai::chat_completions))
        .route("/v1/completions", post(openai::completions))
        .route("/v1/models", get(openai::list_models))
        .route("/v1/models/{*model}", get(openai::show_model))
        .route("/idlewild/v1/status", get(control::status))
        .route("/idlewild/v1/doctor", get(control::doctor))
        .route("/idlewild/v1/explain/{request}", get(control::explain))
        .route("/idlewild/v1/hazard", get(control::hazard).post(control::reread_sessions))
        .route("/idlewild/v1/invite", post(control::invite))
        .route("/idlewild/v1/move", post(control::move_request))
        .route("/idlewild/v1/models", get(control::models).post(control::reread_models))
        .route("/idlewild/v1/requests", get(control::requests))
        .route("/idlewild/v1/rules", get(control::rules))
        .route("/idlewild/v1/pause", post(control::pause))
        .route("/idlewild/v1/resume", post(control::resume))
        .route("/idlewild/v1/stop", post(control::stop))
        .fallback(error::no_such_route)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(DefaultBodyLimit::max(api.max_body_bytes))
        .layer(middleware::from_fn_with_state(api.clone(), guard::check));
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .merge(guarded)
        .with_state(api)
}

/// Serves until `stop` resolves, then lets answers that are under way end.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    server::serve(listener, router(api), server::Limits::default(), stop).await
}
