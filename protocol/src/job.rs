//! One request on one worker: a stream that the origin opens, one frame at a time in each direction.
//!
//! ```text
//! origin --Start-->   worker      messages or token ids, sampling, epoch, first index
//! origin <--Accepted- worker      prompt ids, by the worker's tokenizer and chat template
//! origin <--Token...- worker      (epoch, index, id, text), index after index
//! origin <--Finished- worker      or Failed, or Leaving while it goes on for the notice
//! origin --Cancel-->  worker      at any time; closing the stream means the same
//! ```
//!
//! A planned move, with a second stream to the destination:
//!
//! ```text
//! origin --Offer-->     source            who may pull the KV cache
//! origin --Prepare-->   destination       the ids so far, and where the KV cache is
//! origin --Forward-->   destination       each id that the source says meanwhile
//! origin <--Held-----   destination       how far it is
//! origin --StopAfter--> source            the hand-off; GoOn withdraws it
//! origin --CatchUp-->   destination
//! origin --TakeOver-->  destination       from here on this is a worker's stream like any other
//! ```

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{DepartureCause, Epoch, Message, ModelId, PeerId, RequestId, TokenId};

/// Texts that may end an answer.
pub const MAX_STOPS: usize = 16;

/// Bytes of a text that ends an answer.
pub const MAX_STOP_BYTES: usize = 256;

/// Bytes of text that one event may carry: what one token adds, with all that was held back before it.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Ids in one `Forward`: a context of the longest is told in a few.
pub const MAX_FORWARD_TOKENS: usize = 65_536;

/// Bytes of the words in a failure; what is longer is cut by [`JobFailure::clipped`].
pub const MAX_FAILURE_BYTES: usize = 1024;

/// Bytes of messages or of a prompt that fit a start whatever else it says.
pub const MAX_INPUT_BYTES: usize = JobRequest::MAX_BYTES - 16 * 1024;

/// What the origin says, version 1.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum JobRequest {
    /// Run this.
    Start(Box<JobStart>),
    /// Stop within one step.
    Cancel,
    /// Get ready to go on with this, whose epoch is 0, and say no token before `TakeOver`. In the place of a `Start`.
    Prepare(Box<JobStart>),
    /// To a destination: more ids of the answer.
    Forward {
        /// Place of the first of them in the answer.
        from_index: u32,
        /// In order (at most [`MAX_FORWARD_TOKENS`]).
        ids: Vec<TokenId>,
    },
    /// To a destination: keep up with the source, or just keep what is there.
    Keep {
        /// Whether to keep up.
        warm: bool,
    },
    /// To a destination: the source stops now; have all that was sent ready at once.
    CatchUp,
    /// To a destination: it is the worker now. All that it says from here on is of this epoch.
    TakeOver {
        /// The live epoch.
        epoch: Epoch,
        /// Place of the first token that it says; every id before it was sent.
        from_index: u32,
    },
    /// To a worker: say no token after this index; keep the context until cancelled or told to go on.
    StopAfter {
        /// The last token's place in the answer.
        index: u32,
    },
    /// To a worker: it need not stop after all.
    GoOn,
    /// To a worker: this peer may pull the context, and nobody else; none: nobody may.
    Offer {
        /// Who.
        to: Option<PeerId>,
    },
}

impl Message for JobRequest {
    const MAX_BYTES: usize = 2 * 1024 * 1024;

    fn is_valid(&self) -> bool {
        match self {
            Self::Start(start) | Self::Prepare(start) => start.is_valid(),
            Self::Forward { ids, .. } => (1..=MAX_FORWARD_TOKENS).contains(&ids.len()),
            Self::Cancel
            | Self::Keep { .. }
            | Self::CatchUp
            | Self::TakeOver { .. }
            | Self::StopAfter { .. }
            | Self::GoOn
            | Self::Offer { .. } => true,
        }
    }
}

/// All that a worker needs to run, or to go on with, a request.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct JobStart {
    /// The request.
    pub request: RequestId,
    /// This assignment.
    pub epoch: Epoch,
    /// The model.
    pub model: ModelId,
    /// What to answer.
    pub input: JobInput,
    /// How to draw tokens.
    pub sampling: Sampling,
    /// Most tokens of output, those that exist already included.
    pub max_tokens: u32,
    /// Texts that end the answer (at most [`MAX_STOPS`] of at most [`MAX_STOP_BYTES`], none empty).
    pub stop: Vec<String>,
    /// Where the KV cache of [`JobInput::Tokens`] can be had; none: it is made from the ids.
    pub pull: Option<Pull>,
}

/// Where a context's KV cache can be pulled from. What does not come is made from the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Pull {
    /// Who holds it, and was told to let this peer have it.
    pub holder: PeerId,
    /// How much of it.
    pub part: PullPart,
}

/// How much of a KV cache is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum PullPart {
    /// All: the destination computes nothing but the last tokens.
    Whole,
    /// What the destination has not prefilled itself by the time that it arrives: it begins at one end, the transfer at
    /// the other.
    Rest,
}

impl JobStart {
    fn is_valid(&self) -> bool {
        self.stop.len() <= MAX_STOPS
            && self.stop.iter().all(|s| !s.is_empty() && s.len() <= MAX_STOP_BYTES)
            && self.max_tokens > 0
            && self.sampling.is_valid()
    }
}

/// What to answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum JobInput {
    /// A conversation: JSON of OpenAI's `messages` array, for the model's own chat template.
    Chat {
        /// The array.
        messages_json: String,
    },
    /// Text to go on with.
    Text {
        /// The text.
        prompt: String,
    },
    /// A context that exists already: the token log. The answer goes on at index `generated.len()`.
    Tokens {
        /// Ids of the prompt.
        prompt: Vec<TokenId>,
        /// Ids that were accepted so far.
        generated: Vec<TokenId>,
    },
}

/// How tokens are drawn. The draw for token n is a function of (seed, n) only.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// The k likeliest; 0 is all.
    pub top_k: u32,
    /// The likeliest with this mass in total; 1 is all.
    pub top_p: f32,
    /// At least this share of the likeliest's probability; 0 is all.
    pub min_p: f32,
    /// Divides the logit of a token seen lately; 1 is none.
    pub repeat_penalty: f32,
    /// Subtracted for each time that a token was seen.
    pub frequency_penalty: f32,
    /// Subtracted once if a token was seen.
    pub presence_penalty: f32,
    /// How many last tokens count as lately.
    pub penalty_last_n: u32,
    /// Of the random draws.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_last_n: 64,
            seed: 0,
        }
    }
}

impl Sampling {
    fn is_valid(&self) -> bool {
        (0.0..=10.0).contains(&self.temperature)
            && (0.0..=1.0).contains(&self.top_p)
            && (0.0..=1.0).contains(&self.min_p)
            && (0.01..=10.0).contains(&self.repeat_penalty)
            && (-10.0..=10.0).contains(&self.frequency_penalty)
            && (-10.0..=10.0).contains(&self.presence_penalty)
    }
}

/// What the worker says, version 1.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum JobEvent {
    /// It runs. For [`JobInput::Tokens`] the ids are those sent.
    Accepted {
        /// Of the start.
        epoch: Epoch,
        /// The prompt by the worker's tokenizer.
        prompt: Vec<TokenId>,
    },
    /// The prompt is being read: proof of life before the first token.
    Prefilled {
        /// Of the start.
        epoch: Epoch,
        /// Tokens read.
        done: u32,
        /// Tokens to read.
        total: u32,
    },
    /// One more token.
    Token {
        /// Of the start.
        epoch: Epoch,
        /// Its place in the output, from 0.
        index: u32,
        /// Its id.
        id: TokenId,
        /// What it adds to the answer's text: whole characters, perhaps none yet.
        text: String,
    },
    /// The answer is complete.
    Finished {
        /// Of the start.
        epoch: Epoch,
        /// Why.
        reason: FinishReason,
        /// Text that was held back in case it began a stop text, or an unfinished character.
        text: String,
    },
    /// It cannot go on. The origin places the request again unless the failure says that this is of no use.
    Failed {
        /// Of the start.
        epoch: Epoch,
        /// Why.
        failure: JobFailure,
    },
    /// The worker's session ends; tokens may still come within the notice.
    Leaving {
        /// Of the start.
        epoch: Epoch,
        /// Why.
        cause: DepartureCause,
        /// Milliseconds.
        notice_ms: u32,
    },
    /// A destination holds so much of the context that it was sent. Of epoch 0.
    Held {
        /// Of the prepare: 0.
        epoch: Epoch,
        /// Tokens, those of the prompt included.
        tokens: u32,
        /// Of those, the ones whose KV cache was pulled.
        pulled_tokens: u32,
        /// Bytes of that.
        pulled_bytes: u64,
    },
}

impl Message for JobEvent {
    const MAX_BYTES: usize = 1024 * 1024;

    fn is_valid(&self) -> bool {
        match self {
            Self::Token { text, .. } | Self::Finished { text, .. } => text.len() <= MAX_TEXT_BYTES,
            Self::Failed { failure, .. } => failure.words().is_none_or(|words| words.len() <= MAX_FAILURE_BYTES),
            Self::Accepted { .. } | Self::Prefilled { .. } | Self::Leaving { .. } | Self::Held { .. } => true,
        }
    }
}

impl JobEvent {
    /// The assignment that it speaks of.
    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Accepted { epoch, .. }
            | Self::Prefilled { epoch, .. }
            | Self::Token { epoch, .. }
            | Self::Finished { epoch, .. }
            | Self::Failed { epoch, .. }
            | Self::Leaving { epoch, .. }
            | Self::Held { epoch, .. } => *epoch,
        }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended it, or a stop text did.
    Stop,
    /// `max_tokens` or the context's end.
    Length,
}

/// Why a worker cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum JobFailure {
    /// It does not have the model, or could not load it.
    #[error("the model could not be loaded: {0}")]
    Model(String),
    /// The prompt does not fit; no peer with a context as short can help.
    #[error("the prompt has {prompt_tokens} tokens and the context {context_tokens}")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Tokens of context here.
        context_tokens: u32,
    },
    /// The input cannot be used by this model anywhere (a bad role, a template that refuses).
    #[error("the request cannot be used with this model: {0}")]
    BadInput(String),
    /// No slot or no KV room.
    #[error("no room for another request")]
    Busy,
    /// The engine child died or failed.
    #[error("the engine failed: {0}")]
    Engine(String),
    /// The worker takes no work (its owner is there), or takes no more.
    #[error("the worker is leaving")]
    Leaving,
    /// Its engine died a moment ago and is started again after a pause.
    #[error("its engine is being restarted")]
    Restarting,
}

impl JobFailure {
    /// Whether the worker did not begin, and may do so a moment later.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Busy | Self::Leaving | Self::Restarting => true,
            Self::Model(_) | Self::PromptTooLong { .. } | Self::BadInput(_) | Self::Engine(_) => false,
        }
    }

    /// The same with its words cut to [`MAX_FAILURE_BYTES`], so that it can be sent.
    #[must_use]
    pub fn clipped(mut self) -> Self {
        if let Self::Model(words) | Self::BadInput(words) | Self::Engine(words) = &mut self {
            words.truncate(words.floor_char_boundary(MAX_FAILURE_BYTES));
        }
        self
    }

    fn words(&self) -> Option<&str> {
        match self {
            Self::Model(words) | Self::BadInput(words) | Self::Engine(words) => Some(words),
            Self::PromptTooLong { .. } | Self::Busy | Self::Leaving | Self::Restarting => None,
        }
    }
}
