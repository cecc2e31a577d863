//! A request's error in words for its client.

use idlewild_coordinator::ownership::{RequestError, RequestErrorKind};
use idlewild_protocol::PeerId;

use super::{Failure, FailureKind};

/// What happened, peer by peer, and what to do. `output_tokens` of the answer were sent; `me` is where it was asked for.
pub(super) fn explain(error: &RequestError, output_tokens: u32, me: PeerId) -> Failure {
    let (kind, hint) = match &error.kind {
        RequestErrorKind::NoPeer if error.peers.iter().any(|reason| reason.peer == me) => (
            FailureKind::NobodyCanServe,
            "`idlewild rules` says what keeps this peer from work and how to change that, `idlewild status` what the others do",
        ),
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
    use idlewild_protocol::Unfit;

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
        let (here, elsewhere) = (explain(&error, 0, two), explain(&error, 7, PeerId([3; 32])));
        assert_eq!(here.message, reasons);
        assert!(here.hint.is_some_and(|hint| hint.contains("this peer")), "{here:?}");
        assert_eq!(elsewhere.message, format!("the answer is incomplete: after 7 tokens, {reasons}"));
        assert!(elsewhere.hint.is_some_and(|hint| hint.contains("at a peer")), "{elsewhere:?}");
    }
}
