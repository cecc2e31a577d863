//! What became of a request, assignment by assignment, so that a person can ask why.

use core::time::Duration;

use idlewild_protocol::{DepartureCause, Epoch, FinishReason, JobFailure, PeerId, PlaceReply};
use serde::Serialize;

/// One assignment of the request to a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Its number.
    pub epoch: Epoch,
    /// Who ran it.
    pub worker: PeerId,
    /// The placement that chose it, with the terms of the chosen and the rejected. Of a worker that was prepared: what
    /// the plan says, as an answer to attempt 0.
    pub plan: PlaceReply,
    /// Index of the first token it was asked for.
    pub from_index: u32,
    /// When it was told to start, since the agent started.
    pub began: Duration,
    /// How it ended, and when; none while it runs.
    pub ended: Option<(Duration, Ending)>,
    /// KV cache that its worker has pulled, by its own word since it is the worker; none where it has said nothing since.
    pub pulled: Option<PulledKv>,
}

/// KV cache that travelled to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulledKv {
    /// Its tokens.
    pub tokens: u32,
    /// Its bytes.
    pub bytes: u64,
}

impl Assignment {
    /// Whether its worker did not begin.
    pub(super) fn was_refused(&self) -> bool {
        self.ended.as_ref().is_some_and(|(_, how)| how.is_refusal())
    }
}

impl Ending {
    /// Whether the worker did not begin, and may do so a moment later.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_refusal())
    }
}

/// How an assignment ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The answer is complete.
    #[error("finished")]
    Finished(FinishReason),
    /// It was told to stop, and a destination that was prepared went on.
    #[error("handed over as planned")]
    HandedOver,
    /// It only waited there, and was placed elsewhere.
    #[error("placed elsewhere while it waited")]
    Requeued,
    /// The worker is gone.
    #[error(transparent)]
    Lost(LossReason),
    /// The worker said that it cannot.
    #[error(transparent)]
    Failed(JobFailure),
    /// The worker said goodbye and another took over.
    #[error("said goodbye ({0})")]
    Left(DepartureCause),
    /// The worker said nothing for too long.
    #[error(transparent)]
    Silent(Silence),
    /// The worker said what no sound worker says.
    #[error(transparent)]
    Faulty(Fault),
    /// The client went away.
    #[error("the client went away")]
    ClientGone,
}

/// How the shell knows that a worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The job stream could not be opened.
    #[error("could not be reached")]
    NotOpened,
    /// The stream or its connection closed.
    #[error("closed the connection")]
    Closed,
    /// The connection fell silent (heartbeats unanswered).
    #[error("stopped answering heartbeats")]
    Silent,
    /// The peer's agent said goodbye on the control stream.
    #[error("said goodbye ({0})")]
    Goodbye(DepartureCause),
}

/// Which deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// No sign of life before the first token of the assignment.
    #[error("showed no sign of life while it read the prompt")]
    BeforeFirstToken,
    /// No token after the last one.
    #[error("sent no token for too long")]
    BetweenTokens,
    /// Signs of life, but no token within the bound for loading and prefill together.
    #[error("took too long to read the prompt")]
    Endless,
}

/// What no sound worker says. The assignment ends and the worker is not asked again for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A token beyond the next one.
    #[error("left a token out")]
    Gap,
    /// A token or an end before it accepted the request.
    #[error("answered before it accepted")]
    NotAccepted,
    /// A prompt of no ids.
    #[error("made no ids of the prompt")]
    NoPrompt,
    /// Other prompt ids than it was given.
    #[error("changed the prompt's ids")]
    OtherPrompt,
    /// More tokens than asked for.
    #[error("sent more tokens than asked for")]
    TooMany,
}
