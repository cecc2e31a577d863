//! `idlewild run`: a prompt to the local API, the answer to stdout as it comes, who answered to stderr.

use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::args::RunArgs;
use super::client::{Client, failure_of, lost};
use super::context::Context;
use super::explain::{story_of, summary};
use super::failure::{Failure, OrExit};
use super::sse::Events;
use super::{Exit, Printer};
use crate::api::wire::{ErrorReply, ExplainReply, ModelsReply, REQUEST_HEADER};
use crate::config::Layer;

/// A longer prompt is refused by the agent anyway.
const MAX_PROMPT_BYTES: u64 = 2 * 1024 * 1024;

/// What is printed with `--json`.
#[derive(Debug, Serialize)]
struct RunReply {
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

pub(super) async fn run(context: &Context, printer: &mut Printer, args: RunArgs) -> Result<Exit, Failure> {
    let prompt = prompt_of(args.prompt.as_deref())?;
    let client = Client::new(&context.paths)?;
    let model = match &args.model {
        Some(name) => name.clone(),
        None => default_model(context, &client).await?,
    };
    let body = question(&args, &model, &prompt);
    let mut answer = Answer::new(!args.json);
    tokio::select! {
        outcome = answer.receive(&client, &body, printer) => outcome?,
        // Leaving closes the connection, which cancels the request.
        _ = tokio::signal::ctrl_c() => {
            answer.end_line(printer)?;
            return Err(Failure::words(Exit::Interrupted, "interrupted; the request was cancelled"));
        }
    }
    answer.end_line(printer)?;
    let story = match &answer.request {
        Some(request) => story_of(&client, request).await.ok(),
        None => None,
    };
    if args.json {
        printer.json(&answer.into_reply(story))?;
        return Ok(Exit::Fine);
    }
    if let Some(story) = story.filter(|_| !args.quiet) {
        summary(printer, &story);
    }
    if args.stats {
        printer.note(answer.stats());
    }
    Ok(Exit::Fine)
}

fn prompt_of(given: Option<&str>) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let prompt = match given {
        Some(text) if text != "-" => text.to_owned(),
        None if stdin.is_terminal() => {
            return Err(Failure::words(Exit::Usage, "there is no prompt")
                .hint("idlewild run \"What is a peer?\", or pipe a prompt into it"));
        }
        Some(_) | None => {
            let mut text = String::new();
            stdin.take(MAX_PROMPT_BYTES).read_to_string(&mut text).or_exit(Exit::Failed)?;
            text
        }
    };
    if prompt.trim().is_empty() { Err(Failure::words(Exit::Usage, "the prompt is empty")) } else { Ok(prompt) }
}

/// The model of the settings, or the only one that there is in the swarm.
async fn default_model(context: &Context, client: &Client) -> Result<String, Failure> {
    let (config, _) = context.config(Layer::default())?;
    if !config.models.default.trim().is_empty() {
        return Ok(config.models.default);
    }
    let mut models = client.get::<ModelsReply>("/idlewild/v1/models").await?.models;
    match (models.pop(), models.is_empty()) {
        (Some(only), true) => Ok(only.id.to_string()),
        (None, _) => Err(Failure::words(Exit::NotFound, "no peer of this swarm has a model")
            .hint("add one with `idlewild models import FILE.gguf`")),
        (Some(last), false) => {
            let names: Vec<String> = models.into_iter().chain([last]).map(|model| model.name).collect();
            Err(Failure::words(Exit::Usage, format!("there are several models: {}", names.join(", ")))
                .hint("choose one with --model, or set models.default"))
        }
    }
}

fn question(args: &RunArgs, model: &str, prompt: &str) -> Value {
    let system = args.system.iter().map(|text| json!({"role": "system", "content": text}));
    let messages: Vec<Value> = system.chain([json!({"role": "user", "content": prompt})]).collect();
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let given = [
        ("max_tokens", args.max_tokens.map(Value::from)),
        ("temperature", args.temperature.map(Value::from)),
        ("seed", args.seed.map(Value::from)),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    body
}

/// An answer as it comes.
struct Answer {
    is_shown: bool,
    text: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    request: Option<String>,
    began: Instant,
    first_token: Option<Duration>,
    took: Duration,
}

impl Answer {
    fn new(is_shown: bool) -> Self {
        Self {
            is_shown,
            text: String::new(),
            finish_reason: None,
            usage: None,
            request: None,
            began: Instant::now(),
            first_token: None,
            took: Duration::ZERO,
        }
    }

    /// Takes the stream to its end. Anything but a proper end is a failure, whatever came before it.
    async fn receive(&mut self, client: &Client, body: &Value, printer: &mut Printer) -> Result<(), Failure> {
        let mut response = client.stream("/v1/chat/completions", body).await?;
        let request = response.headers().get(REQUEST_HEADER).and_then(|value| value.to_str().ok());
        self.request = request.map(str::to_owned);
        let mut events = Events::default();
        while let Some(bytes) = response.chunk().await.map_err(|e| lost(&e))? {
            for data in events.take(&bytes).or_exit(Exit::Failed)? {
                if data == "[DONE]" {
                    self.took = self.began.elapsed();
                    return Ok(());
                }
                self.take(&data, printer)?;
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
            if self.is_shown {
                printer.text(&piece)?;
            }
            self.text.push_str(&piece);
        }
        Ok(())
    }

    fn end_line(&mut self, printer: &mut Printer) -> Result<(), Failure> {
        if self.is_shown && !self.text.is_empty() {
            printer.text("\n")?;
            self.is_shown = false;
        }
        Ok(())
    }

    fn stats(&self) -> String {
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

    fn into_reply(self, story: Option<ExplainReply>) -> RunReply {
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
    fn only_what_was_given_is_sent() {
        let args = RunArgs {
            prompt: None,
            model: None,
            system: Some("be brief".into()),
            max_tokens: Some(5),
            temperature: None,
            seed: Some(7),
            json: false,
            stats: false,
            quiet: false,
        };
        let body = question(&args, "m", "hi");
        assert_eq!(
            body["messages"],
            json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}])
        );
        assert_eq!((body["max_tokens"].clone(), body["seed"].clone()), (json!(5), json!(7)));
        assert!(body.get("temperature").is_none());
    }
}
