//! The JSON of answers, as OpenAI's clients parse it, with one field of our own (`idlewild`: request, worker, moves).

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use idlewild_protocol::{FinishReason, ModelInfo, PeerId, RequestId};
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::api::wire::REQUEST_HEADER;
use crate::origin::Failure;

/// Names the peer that runs it (the first, where it moves after the headers are sent).
const WORKER_HEADER: &str = "x-idlewild-worker";

/// OpenAI's default for completions.
const TEXT_MAX_TOKENS: u32 = 16;

/// Chat answers end when the model ends them, or with the context; this bounds what a model that never ends may cost.
const CHAT_MAX_TOKENS: u32 = 8192;

/// Which route's shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    /// Chat completions.
    Chat,
    /// Completions.
    Text,
}

impl Face {
    /// Most tokens of output where the client does not say.
    pub(super) fn default_max_tokens(self) -> u32 {
        match self {
            Self::Chat => CHAT_MAX_TOKENS,
            Self::Text => TEXT_MAX_TOKENS,
        }
    }
}

/// Tokens of a finished answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
}

impl Usage {
    fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": u64::from(self.prompt_tokens) + u64::from(self.output_tokens),
        })
    }
}

/// What all JSON of one answer has in common.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    face: Face,
    request: RequestId,
    /// Who runs it, as far as is known.
    pub(super) worker: Option<PeerId>,
    /// How often it went on elsewhere.
    pub(super) moves: u32,
    id: String,
    created_s: u64,
    model: String,
    fingerprint: String,
}

impl Reply {
    /// For an answer that begins now.
    pub(super) fn new(face: Face, request: RequestId, model: &ModelInfo) -> Self {
        let digits = request.to_string();
        let digits = digits.trim_start_matches("req-");
        let id = match face {
            Face::Chat => format!("chatcmpl-{digits}"),
            Face::Text => format!("cmpl-{digits}"),
        };
        Self {
            face,
            request,
            worker: None,
            moves: 0,
            id,
            created_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            model: model.name.clone(),
            fingerprint: format!("fp_{:.12}", model.id.to_string()),
        }
    }

    /// The headers that name request and worker.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name, text: String| {
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        };
        set(REQUEST_HEADER, self.request.to_string());
        if let Some(worker) = self.worker {
            set(WORKER_HEADER, worker.to_string());
        }
        headers
    }

    /// The answer that there is none; it names its request all the same, for `idlewild explain`.
    pub(super) fn refused(&self, failure: Failure) -> Response {
        (self.headers(), ApiError::from(failure)).into_response()
    }

    /// The first chunk of a chat: who speaks.
    pub(super) fn role_chunk(&self) -> Option<Value> {
        match self.face {
            Face::Chat => {
                let choice = json!({
                    "index": 0, "delta": { "role": "assistant", "content": "" }, "logprobs": null, "finish_reason": null,
                });
                Some(self.with_extension(self.chunk(&json!([choice]))))
            }
            Face::Text => None,
        }
    }

    /// A chunk of text.
    pub(super) fn text_chunk(&self, text: &str) -> Value {
        let choice = match self.face {
            Face::Chat => json!({ "index": 0, "delta": { "content": text }, "logprobs": null, "finish_reason": null }),
            Face::Text => json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": null }),
        };
        self.chunk(&json!([choice]))
    }

    /// The chunk that says why the answer ends.
    pub(super) fn finish_chunk(&self, reason: FinishReason) -> Value {
        let choice = match self.face {
            Face::Chat => json!({ "index": 0, "delta": {}, "logprobs": null, "finish_reason": reason }),
            Face::Text => json!({ "index": 0, "text": "", "logprobs": null, "finish_reason": reason }),
        };
        self.with_extension(self.chunk(&json!([choice])))
    }

    /// The chunk without choices that counts tokens.
    pub(super) fn usage_chunk(&self, usage: Usage) -> Value {
        let mut chunk = self.chunk(&json!([]));
        chunk["usage"] = usage.json();
        chunk
    }

    /// The answer in one piece.
    pub(super) fn whole(&self, text: &str, reason: FinishReason, usage: Usage) -> Value {
        let (object, choice) = match self.face {
            Face::Chat => (
                "chat.completion",
                json!({
                    "index": 0,
                    "message": { "role": "assistant", "content": text, "refusal": null },
                    "logprobs": null,
                    "finish_reason": reason,
                }),
            ),
            Face::Text => {
                ("text_completion", json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": reason }))
            }
        };
        let mut whole = self.envelope(object, &json!([choice]));
        whole["usage"] = usage.json();
        self.with_extension(whole)
    }

    fn chunk(&self, choices: &Value) -> Value {
        let object = match self.face {
            Face::Chat => "chat.completion.chunk",
            Face::Text => "text_completion",
        };
        self.envelope(object, choices)
    }

    fn envelope(&self, object: &str, choices: &Value) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created_s,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        })
    }

    fn with_extension(&self, mut value: Value) -> Value {
        value["idlewild"] = json!({ "request": self.request, "worker": self.worker, "moves": self.moves });
        value
    }
}
