//! The answer as server-sent events: `data: {json}`, a blank line, at the end `data: [DONE]`.
//!
//! Headers wait a moment for the worker's first word, so that an error can still be a status. After that an error is an
//! event, and the stream ends with `[DONE]` all the same: a client never sees half an answer that looks whole.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use idlewild_protocol::FinishReason;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::reply::{Reply, Usage};
use crate::api::ApiError;
use crate::api::wire::READING;
use crate::origin::{GenerationEvent, GenerationStream};

/// How long headers wait for the worker's first word. Longer than it takes to find that nobody can serve (2 s).
const HEADERS_HELD: Duration = Duration::from_millis(2500);

/// Time without an event after which a comment shows that the connection lives. Proxies give up after 30 s or more.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Answers with a stream, or with an error if one comes before the headers must go.
pub(super) async fn respond(mut stream: GenerationStream, mut reply: Reply, include_usage: bool) -> Response {
    let deadline = Instant::now() + HEADERS_HELD;
    let mut first = None;
    while let Ok(Some(event)) = timeout_at(deadline, stream.next()).await {
        match event {
            GenerationEvent::Placed { worker } => reply.worker = Some(worker),
            GenerationEvent::Failed(failure) => return reply.refused(failure),
            GenerationEvent::Moved { .. } => reply.moves += 1,
            GenerationEvent::Prompt { .. } | GenerationEvent::Reading { .. } => break,
            GenerationEvent::Text(_) | GenerationEvent::Done { .. } => {
                first = Some(event);
                break;
            }
        }
    }
    let headers = reply.headers();
    let mut chunks = Chunks::new(stream, reply, include_usage);
    if let Some(event) = first {
        chunks.take(event);
    }
    (headers, Sse::new(chunks.into_stream()).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}

/// Turns generation events into the chunks that clients parse.
struct Chunks {
    stream: GenerationStream,
    reply: Reply,
    include_usage: bool,
    /// Made, not yet sent. At most the three that end an answer.
    ready: VecDeque<Event>,
}

impl Chunks {
    fn new(stream: GenerationStream, reply: Reply, include_usage: bool) -> Self {
        let mut chunks = Self { stream, reply, include_usage, ready: VecDeque::new() };
        if let Some(role) = chunks.reply.role_chunk() {
            chunks.push(role);
        }
        chunks
    }

    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut chunks| async move {
            let event = chunks.next().await?;
            Some((Ok(event), chunks))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        while self.ready.is_empty() {
            let event = self.stream.next().await?;
            self.take(event);
        }
        self.ready.pop_front()
    }

    fn take(&mut self, event: GenerationEvent) {
        match event {
            GenerationEvent::Placed { worker } => self.reply.worker = Some(worker),
            GenerationEvent::Prompt { .. } => {}
            // A comment: clients that do not know it skip it.
            GenerationEvent::Reading { done, total } => {
                self.ready.push_back(Event::default().comment(format!("{READING} {done} {total}")));
            }
            GenerationEvent::Moved { .. } => self.reply.moves += 1,
            GenerationEvent::Text(text) => {
                if !text.is_empty() {
                    self.push(self.reply.text_chunk(&text));
                }
            }
            GenerationEvent::Done { reason, prompt_tokens, output_tokens } => {
                self.finish(reason, Usage { prompt_tokens, output_tokens });
            }
            GenerationEvent::Failed(failure) => {
                self.ready.push_back(Event::default().data(ApiError::from(failure).body().to_string()));
                self.push_done();
            }
        }
    }

    fn finish(&mut self, reason: FinishReason, usage: Usage) {
        self.push(self.reply.finish_chunk(reason));
        if self.include_usage {
            self.ready.push_back(Event::default().data(self.reply.usage_chunk(usage).to_string()));
        }
        self.push_done();
    }

    /// With `include_usage` every chunk has a `usage`, null in all but the one that counts.
    fn push(&mut self, mut chunk: Value) {
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        self.ready.push_back(Event::default().data(chunk.to_string()));
    }

    fn push_done(&mut self) {
        self.ready.push_back(Event::default().data("[DONE]"));
    }
}
