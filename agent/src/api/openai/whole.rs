//! The answer in one piece of JSON.

use axum::Json;
use axum::response::{IntoResponse, Response};

use super::reply::{Reply, Usage};
use crate::origin::{Failure, GenerationEvent, GenerationStream};

/// Waits for the whole answer. The client that goes away drops this future, and with it the generation.
pub(super) async fn respond(mut stream: GenerationStream, mut reply: Reply) -> Response {
    let mut answer = String::new();
    while let Some(event) = stream.next().await {
        match event {
            GenerationEvent::Placed { worker } => reply.worker = Some(worker),
            GenerationEvent::Prompt { .. } | GenerationEvent::Reading { .. } => {}
            GenerationEvent::Text(text) => answer.push_str(&text),
            GenerationEvent::Moved { .. } => reply.moves += 1,
            GenerationEvent::Done { reason, prompt_tokens, output_tokens } => {
                let whole = reply.whole(&answer, reason, Usage { prompt_tokens, output_tokens });
                return (reply.headers(), Json(whole)).into_response();
            }
            GenerationEvent::Failed(failure) => return reply.refused(failure),
        }
    }
    reply.refused(Failure::shutting_down())
}
