//! `idlewild run`: a prompt to the local API, the answer to stdout as it comes, who answered to stderr.

use std::io::{IsTerminal, Read};

use serde_json::{Value, json};

use super::answer::Answer;
use super::args::RunArgs;
use super::client::Client;
use super::context::Context;
use super::explain::{story_of, summary};
use super::failure::{Failure, OrExit};
use super::{Exit, Printer};
use crate::api::wire::ModelsReply;
use crate::config::Layer;

/// A longer prompt is refused by the agent anyway.
const MAX_PROMPT_BYTES: u64 = 2 * 1024 * 1024;

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
    if !args.quiet {
        if let Some(words) = answer.cut(args.max_tokens) {
            printer.warning(words);
        }
        if let Some(story) = &story {
            summary(printer, story);
        }
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
            let mut bytes = Vec::new();
            stdin.take(MAX_PROMPT_BYTES).read_to_end(&mut bytes).or_exit(Exit::Failed)?;
            String::from_utf8(bytes).map_err(|_| Failure::words(Exit::Usage, "the prompt is not text in UTF-8"))?
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
        (None, _) => Err(Failure::words(Exit::NotFound, "no peer of this swarm has a model yet")
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

#[cfg(test)]
mod tests {
    use super::*;

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
