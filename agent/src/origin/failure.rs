//! A request's error in words for its client.

use idlewild_coordinator::ownership::{RequestError, RequestErrorKind};

use super::{Failure, FailureKind};

/// What happened, peer by peer, and what to do. `output_tokens` of the answer were sent.
pub(super) fn explain(error: &RequestError, output_tokens: u32) -> Failure {
    let (kind, hint) = match &error.kind {
        RequestErrorKind::NoPeer => (
            FailureKind::NobodyCanServe,
            "`idlewild status` shows what each peer does, and `idlewild rules`, at a peer, what keeps it from work",
        ),
        RequestErrorKind::NoModel => {
            (FailureKind::NobodyCanServe, "add the model to a peer with `idlewild models import FILE.gguf`")
        }
        RequestErrorKind::PromptTooLong { .. } => {
            (FailureKind::PromptTooLong, "send a shorter prompt, or raise engine.context_tokens on a peer")
        }
        RequestErrorKind::BadInput(_) => (FailureKind::BadInput, "change the request"),
        RequestErrorKind::TriedTooOften { .. } => (FailureKind::GaveUp, "try again"),
    };
    let message = match output_tokens {
        0 => error.to_string(),
        n => format!("the answer is incomplete: after {n} tokens, {error}"),
    };
    Failure { kind, message, hint: Some(hint), retry_after: error.retry_after }
}

#[cfg(test)]
mod tests {
    use idlewild_coordinator::ownership::{Ending, LossReason, PeerReason, Why};
    use idlewild_protocol::{PeerId, Unfit};

    use super::*;

    #[test]
    fn an_answer_that_nobody_can_go_on_with_is_called_incomplete_first_and_each_peer_has_its_reason() {
        let (one, two) = (PeerId([1; 32]), PeerId([2; 32]));
        let peers = vec![
            PeerReason { peer: one, why: Why::Tried(Ending::Lost(LossReason::Closed)) },
            PeerReason { peer: two, why: Why::Unfit(Unfit::OwnerPresent) },
        ];
        let error = RequestError { kind: RequestErrorKind::NoPeer, peers, retry_after: None };
        let reasons = format!(
            "no peer can serve this request now: {}: closed the connection; {}: takes no work now (its owner, a pause or a rule)",
            one.short(),
            two.short()
        );
        assert_eq!(explain(&error, 0).message, reasons);
        assert_eq!(explain(&error, 7).message, format!("the answer is incomplete: after 7 tokens, {reasons}"));
    }
}
