//! The answer to `idlewild run` as it comes from the agent's stream: shown, counted, and called cut or incomplete where it is.

use std::time::{Duration, Instant};

use reqwest::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{Client, failure_of, lost};
use super::failure::{Failure, OrExit};
use super::sse::{Event, Events};
use super::waiting::Waiting;
use super::{Exit, Printer};
use crate::api::wire::{ErrorReply, ExplainReply, REQUEST_HEADER};

/// What is printed with `--json`.
#[derive(Debug, Serialize)]
pub(super) struct RunReply {
    text: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    first_token_ms: Option<u64>,
    took_ms: u64,
    /// Who answered and why; none where the agent had no record of it.
    story: Option<ExplainReply>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Usage {
    prompt_tokens: u32,
    completion_tokens: u32,
}

/// A chunk of OpenAI's stream, as far as it is used here.
#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    content: Option<String>,
}

/// An answer as it comes.
pub(super) struct Answer {
    is_shown: bool,
    text: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    pub(super) request: Option<String>,
    waiting: Waiting,
    began: Instant,
    first_token: Option<Duration>,
    took: Duration,
}

impl Answer {
    pub(super) fn new(is_shown: bool) -> Self {
        Self {
            is_shown,
            text: String::new(),
            finish_reason: None,
            usage: None,
            request: None,
            waiting: Waiting::new(is_shown && Printer::is_watched()),
            began: Instant::now(),
            first_token: None,
            took: Duration::ZERO,
        }
    }

    /// Takes the stream to its end. Anything but a proper end is a failure, whatever came before it.
    pub(super) async fn receive(
        &mut self,
        client: &Client,
        body: &Value,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let opened = self.waiting.for_(client.stream("/v1/chat/completions", body), printer).await;
        let received = match opened {
            Ok(response) => self.read(response, printer).await,
            Err(failure) => Err(failure),
        };
        self.waiting.end(printer);
        received
    }

    async fn read(&mut self, mut response: Response, printer: &mut Printer) -> Result<(), Failure> {
        let request = response.headers().get(REQUEST_HEADER).and_then(|value| value.to_str().ok());
        self.request = request.map(str::to_owned);
        let mut events = Events::default();
        while let Some(bytes) = self.waiting.for_(response.chunk(), printer).await.map_err(|e| lost(&e))? {
            for event in events.take(&bytes).or_exit(Exit::Failed)? {
                match event {
                    Event::Data(data) if data == "[DONE]" => {
                        self.took = self.began.elapsed();
                        return Ok(());
                    }
                    Event::Data(data) => self.take(&data, printer)?,
                    Event::Reading(done, total) => self.waiting.read(done, total),
                }
            }
        }
        Err(Failure::words(Exit::Failed, "the agent ended the answer before its end").hint("what came is incomplete"))
    }

    fn take(&mut self, data: &str, printer: &mut Printer) -> Result<(), Failure> {
        if let Ok(error) = serde_json::from_str::<ErrorReply>(data) {
            self.end_line(printer)?;
            return Err(failure_of(&error));
        }
        let chunk: Chunk = serde_json::from_str(data).or_exit(Exit::Failed)?;
        self.usage = chunk.usage.or(self.usage);
        for choice in chunk.choices {
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            let Some(piece) = choice.delta.content.filter(|piece| !piece.is_empty()) else { continue };
            self.first_token.get_or_insert_with(|| self.began.elapsed());
            self.waiting.end(printer);
            if self.is_shown {
                printer.text(&piece)?;
            }
            self.text.push_str(&piece);
        }
        Ok(())
    }

    /// What is printed next begins a line.
    pub(super) fn end_line(&mut self, printer: &mut Printer) -> Result<(), Failure> {
        self.waiting.end(printer);
        if self.is_shown && !self.text.is_empty() {
            printer.text("\n")?;
            self.is_shown = false;
        }
        Ok(())
    }

    pub(super) fn stats(&self) -> String {
        let first = self.first_token.unwrap_or(self.took);
        let tokens = self.usage.map_or(0, |usage| usage.completion_tokens);
        let decoding_s = self.took.saturating_sub(first).as_secs_f64();
        let rate = if decoding_s > 0.0 && tokens > 1 { f64::from(tokens - 1) / decoding_s } else { 0.0 };
        let prompt = self.usage.map_or(0, |usage| usage.prompt_tokens);
        format!(
            "{prompt} tokens of prompt, {tokens} of answer; first after {:.2} s, all in {:.2} s ({rate:.1} tokens/s)",
            first.as_secs_f64(),
            self.took.as_secs_f64(),
        )
    }

    /// What to say of an answer that is shorter than its model wanted it to be.
    pub(super) fn cut(&self, max_tokens: Option<u32>) -> Option<String> {
        let is_cut = self.finish_reason.as_deref() == Some("length");
        let tokens = self.usage.map_or(0, |usage| usage.completion_tokens);
        let why = match max_tokens {
            Some(most) if tokens >= most => "as --max-tokens says",
            Some(_) | None => "since no more fit into the context",
        };
        is_cut.then(|| format!("the answer was cut at {tokens} tokens, {why}"))
    }

    pub(super) fn into_reply(self, story: Option<ExplainReply>) -> RunReply {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        RunReply {
            text: self.text,
            finish_reason: self.finish_reason,
            usage: self.usage,
            first_token_ms: self.first_token.map(ms),
            took_ms: ms(self.took),
            story,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::printer::tests::kept;
    use super::*;

    #[test]
    fn chunks_become_text_and_an_error_in_the_stream_is_a_failure() {
        let (mut printer, out, _) = kept();
        let mut answer = Answer::new(true);
        for data in [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}],"usage":null}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#,
        ] {
            answer.take(data, &mut printer).unwrap();
        }
        assert_eq!((answer.text.as_str(), answer.finish_reason.as_deref()), ("Hello", Some("stop")));
        assert_eq!(answer.usage.unwrap().completion_tokens, 2);
        let failed = answer.take(r#"{"error":{"message":"gone","type":"t","code":"no_peer"}}"#, &mut printer);
        assert_eq!(failed.unwrap_err().exit(), Exit::NoPeer);
        assert_eq!(out.text(), "Hello\n", "the line ends before the error is told");
    }

    #[test]
    fn an_answer_that_was_cut_says_where_and_why() {
        let mut answer = Answer::new(false);
        answer.usage = Some(Usage { prompt_tokens: 3, completion_tokens: 8 });
        for (reason, max_tokens, expected) in [
            ("stop", Some(8), None),
            ("length", Some(8), Some("the answer was cut at 8 tokens, as --max-tokens says")),
            ("length", Some(9), Some("the answer was cut at 8 tokens, since no more fit into the context")),
            ("length", None, Some("the answer was cut at 8 tokens, since no more fit into the context")),
        ] {
            answer.finish_reason = Some(reason.to_owned());
            assert_eq!(answer.cut(max_tokens).as_deref(), expected, "{reason} {max_tokens:?}");
        }
    }
}
