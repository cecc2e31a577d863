//! A request's error in words for its client.

use idlewild_coordinator::ownership::{RequestError, RequestErrorKind};

use super::{Failure, FailureKind};

/// What happened, peer by peer, and what to do.
pub(super) fn explain(error: &RequestError) -> Failure {
    let (kind, hint) = match &error.kind {
        RequestErrorKind::NoPeer => (
            FailureKind::NobodyCanServe,
            "try again later, or let a machine work while its owner is away (`idlewild status` shows the peers)",
        ),
        RequestErrorKind::NoModel => {
            (FailureKind::NobodyCanServe, "add the model to a peer with `idlewild models add FILE.gguf`")
        }
        RequestErrorKind::PromptTooLong { .. } => {
            (FailureKind::PromptTooLong, "send a shorter prompt, or raise engine.context_tokens on a peer")
        }
        RequestErrorKind::BadInput(_) => (FailureKind::BadInput, "change the request"),
        RequestErrorKind::TriedTooOften { .. } => {
            (FailureKind::GaveUp, "what was sent of the answer is right as far as it goes; try again")
        }
    };
    Failure { kind, message: format!("{error} ({hint})"), retry_after: error.retry_after }
}
