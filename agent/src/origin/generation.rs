//! What the API hands to an origin, and what comes back: the handle, the request, its events.

use std::sync::Arc;
use std::time::Duration;

use idlewild_protocol::{FinishReason, JobInput, ModelId, PeerId, RequestId, Sampling};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Requests that may wait to be picked up by the origin's dispatcher: it only spawns, so a short queue is enough.
const SUBMISSIONS: usize = 32;

/// Events between an origin and its client. More are held (and joined) by the origin, bounded by the answer's length.
const EVENTS: usize = 64;

/// One generation, as a client wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationRequest {
    /// Drawn at random by whoever accepted the request.
    pub request: RequestId,
    /// The model.
    pub model: ModelId,
    /// What to answer.
    pub input: JobInput,
    /// How to draw tokens; the seed is set.
    pub sampling: Sampling,
    /// Most tokens of output.
    pub max_tokens: u32,
    /// Texts that end the answer.
    pub stop: Vec<String>,
}

/// What happens to a generation, in order. `Done` or `Failed` is the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GenerationEvent {
    /// A worker was asked to run it (again).
    Placed {
        /// Which.
        worker: PeerId,
    },
    /// The worker's tokenizer has read the prompt.
    Prompt {
        /// Its tokens.
        tokens: u32,
    },
    /// The worker reads the prompt (or, after a move, prompt and answer).
    Reading {
        /// Tokens read.
        done: u32,
        /// Tokens to read.
        total: u32,
    },
    /// More of the answer.
    Text(String),
    /// It goes on elsewhere.
    Moved {
        /// Who had it.
        from: PeerId,
        /// Index of the next token.
        at_index: u32,
    },
    /// The answer is whole.
    Done {
        /// Why it ended.
        reason: FinishReason,
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Tokens of the answer.
        output_tokens: u32,
    },
    /// There is no (more of the) answer.
    Failed(Failure),
}

/// Why a generation ends without its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Which kind.
    pub kind: FailureKind,
    /// For the person who asked: what happened, peer by peer where it differs.
    pub message: String,
    /// What to do; none where the message says all.
    pub hint: Option<&'static str>,
    /// When it is worth another try; none where it is not.
    pub retry_after: Option<Duration>,
}

/// The kinds of failure that a client can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No peer can take it now.
    NobodyCanServe,
    /// The prompt is longer than any peer's context.
    PromptTooLong,
    /// No model can use this input.
    BadInput,
    /// It was tried as often as may be.
    GaveUp,
    /// This agent stops.
    ShuttingDown,
}

impl Failure {
    /// This agent stops.
    pub fn shutting_down() -> Self {
        Self {
            kind: FailureKind::ShuttingDown,
            message: "this agent is shutting down".to_owned(),
            hint: Some("ask another peer, or try again when it is back"),
            retry_after: Some(Duration::from_secs(10)),
        }
    }
}

/// A request on its way to the origin that will own it.
#[derive(Debug)]
pub struct Submission {
    /// The request.
    pub request: GenerationRequest,
    /// Takes its events; closed when the client is gone.
    pub events: mpsc::Sender<GenerationEvent>,
}

/// As many requests are open as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{open} requests are open")]
pub struct TooManyOpen {
    /// As many as may be.
    pub open: usize,
}

/// Submits requests. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Origins {
    submissions: mpsc::Sender<Submission>,
    room: Arc<Semaphore>,
    open_max: usize,
}

impl Origins {
    /// A handle that lets `open_max` requests be open at once, and what it submits. Each takes a task and its answer's
    /// text.
    pub fn channel(open_max: usize) -> (Self, mpsc::Receiver<Submission>) {
        let (submissions, receiver) = mpsc::channel(SUBMISSIONS);
        (Self { submissions, room: Arc::new(Semaphore::new(open_max)), open_max }, receiver)
    }

    /// Submits `request`. Dropping the stream cancels it.
    pub async fn submit(&self, request: GenerationRequest) -> Result<GenerationStream, TooManyOpen> {
        let room = Arc::clone(&self.room).try_acquire_owned().map_err(|_| TooManyOpen { open: self.open_max })?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let id = request.request;
        // A submission that nobody takes closes its channel, which reads as an agent that shuts down.
        self.submissions.send(Submission { request, events }).await.ok();
        Ok(GenerationStream { request: id, events: Some(receiver), _room: room })
    }
}

/// The events of one generation. Dropping it cancels the generation.
#[derive(Debug)]
pub struct GenerationStream {
    request: RequestId,
    /// None after the last event.
    events: Option<mpsc::Receiver<GenerationEvent>>,
    _room: OwnedSemaphorePermit,
}

impl GenerationStream {
    /// Which request.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// The next event; none after the last. An origin that vanishes without a last word counts as shutting down, so
    /// that a client is never left with half an answer that looks whole.
    pub async fn next(&mut self) -> Option<GenerationEvent> {
        let events = self.events.as_mut()?;
        let event = events.recv().await.unwrap_or_else(|| GenerationEvent::Failed(Failure::shutting_down()));
        if matches!(event, GenerationEvent::Done { .. } | GenerationEvent::Failed(_)) {
            self.events = None;
        }
        Some(event)
    }
}
