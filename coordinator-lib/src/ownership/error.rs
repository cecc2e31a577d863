//! Why a request failed, in words for the client.

use core::time::Duration;

use idlewild_protocol::{PeerId, Unfit};

use crate::ownership::Ending;

/// A request came to an end without an answer, or with a part of one. The client has been sent all tokens up to here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}", listed(.peers))]
pub struct RequestError {
    /// What to do about it hangs on this.
    pub kind: RequestErrorKind,
    /// Why each peer could not, in the order of their ids.
    pub peers: Vec<PeerReason>,
    /// When it may be worth trying again; none where the same request would fail again.
    pub retry_after: Option<Duration>,
}

/// The kinds of failure that a client can tell apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestErrorKind {
    /// No peer can take it now.
    #[error("no peer can serve this request now")]
    NoPeer,
    /// No peer has the model.
    #[error("no peer has this model")]
    NoModel,
    /// The prompt, with the answer so far, fits no peer's context.
    #[error("the prompt has {prompt_tokens} tokens, more than any peer's context{}", largest(*.context_tokens))]
    PromptTooLong {
        /// Tokens of the prompt (an estimate unless a worker counted them).
        prompt_tokens: u32,
        /// The largest context that a peer named; 0 where none did.
        context_tokens: u32,
    },
    /// The model cannot use such a request.
    #[error("the request cannot be used with this model: {0}")]
    BadInput(String),
    /// It was tried as often as is reasonable.
    #[error("the request failed {tried} times in a row")]
    TriedTooOften {
        /// Assignments.
        tried: u32,
    },
}

/// Why one peer did not serve the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerReason {
    /// The peer.
    pub peer: PeerId,
    /// Why.
    pub why: Why,
}

/// Found unfit by the placement, or tried without success.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It could not be chosen.
    #[error(transparent)]
    Unfit(Unfit),
    /// It was chosen, and that was how it ended.
    #[error(transparent)]
    Tried(Ending),
}

/// `: peer: why; peer: why`, or nothing.
fn listed(peers: &[PeerReason]) -> String {
    let reasons: Vec<String> = peers.iter().map(|r| format!("{}: {}", r.peer.short(), r.why)).collect();
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

fn largest(context_tokens: u32) -> String {
    if context_tokens == 0 { String::new() } else { format!(" ({context_tokens} tokens)") }
}
