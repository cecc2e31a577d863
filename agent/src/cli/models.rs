//! `idlewild models`: what is on this disk, and what the swarm has.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use super::args::{ModelsArgs, ModelsCommand};
use super::client::Client;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::format::{bytes, table};
use super::{Exit, Printer};
use crate::api::wire::{ModelReply, ModelsReply};
use crate::config::{Config, Layer};
use crate::models::{ModelError, ModelStore, StoredModel};

/// How often the progress of a copy is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn models(context: &Context, printer: &mut Printer, args: ModelsArgs) -> Result<Exit, Failure> {
    let (config, _) = context.config(Layer::default())?;
    match args.command {
        ModelsCommand::List(args) => list(context, printer, &config, args.json).await,
        ModelsCommand::Import { file, name, json } => {
            let store = context.model_store(&config)?;
            let model = import(printer, &store, &file, name.as_deref())?;
            tell_agent(context, printer).await;
            if json {
                printer.json(&reply_of(&model, &config))?;
            } else {
                printer.line(format!("{}  {}", model.info.name, model.info.id))?;
            }
            Ok(Exit::Fine)
        }
    }
}

/// Has a running agent look at its models now, so that the next command finds the new one.
async fn tell_agent(context: &Context, printer: &mut Printer) {
    let Ok(client) = Client::new(&context.paths) else { return };
    match client.post::<ModelsReply>("/idlewild/v1/models", &serde_json::json!({})).await {
        Ok(_) => {}
        Err(failure) if failure.exit() == Exit::NoAgent => {}
        Err(_) => printer.note("the running agent could not be told; it looks for new models every few seconds"),
    }
}

/// Copies a file into the store, showing how far it is where a person looks on.
pub(super) fn import(
    printer: &mut Printer,
    store: &ModelStore,
    file: &Path,
    name: Option<&str>,
) -> Result<StoredModel, Failure> {
    let is_watched = std::io::stderr().is_terminal();
    let mut shown = Instant::now();
    let mut progress = |done: u64, total: u64| {
        if is_watched && (shown.elapsed() >= SHOW_EVERY || done == total) {
            shown = Instant::now();
            let end = if done == total { "\n" } else { "" };
            printer.prompt(format!("\rcopying {} of {}   {end}", bytes(done), bytes(total)));
        }
    };
    store.import(file, name, &mut progress).map_err(|error| Failure::new(exit_of(&error), error))
}

/// How a command ends that could not have a model.
pub(super) fn exit_of(error: &ModelError) -> Exit {
    match error {
        ModelError::NotFound { .. } | ModelError::Ambiguous { .. } => Exit::NotFound,
        ModelError::BadName { .. } | ModelError::NameTaken { .. } => Exit::Usage,
        ModelError::Gguf { .. } | ModelError::Gone { .. } | ModelError::Full { .. } | ModelError::Io { .. } => {
            Exit::Failed
        }
    }
}

async fn list(context: &Context, printer: &mut Printer, config: &Config, json: bool) -> Result<Exit, Failure> {
    let here = match context.present_model_store(config)? {
        Some(store) => store.list().or_exit(Exit::Failed)?,
        None => Vec::new(),
    };
    let reply = match swarm(context).await {
        Some(reply) => reply,
        None => ModelsReply { models: here.iter().map(|model| reply_of(model, config)).collect() },
    };
    if json {
        printer.json(&reply)?;
        return Ok(Exit::Fine);
    }
    if reply.models.is_empty() {
        printer.note("there are no models yet");
        printer.hint("idlewild models import FILE.gguf");
        return Ok(Exit::Fine);
    }
    let header = ["NAME", "SIZE", "CONTEXT", "HERE", "PEERS", "ID"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(reply.models.iter().map(row)).collect();
    for line in table(&rows) {
        printer.line(line)?;
    }
    for model in here.iter().filter(|model| !model.is_unchanged) {
        printer.warning(format!("the file of {} was touched; it is hashed again before it is used", model.info.name));
    }
    Ok(Exit::Fine)
}

/// What the agent knows of the swarm's models; none while no agent runs.
async fn swarm(context: &Context) -> Option<ModelsReply> {
    Client::new(&context.paths).ok()?.get("/idlewild/v1/models").await.ok()
}

fn reply_of(model: &StoredModel, config: &Config) -> ModelReply {
    ModelReply {
        id: model.info.id,
        name: model.info.name.clone(),
        size_bytes: Some(model.info.size_bytes),
        context_tokens: Some(model.info.context_tokens.min(config.engine.context_tokens)),
        here: true,
        peers: vec![],
    }
}

fn row(model: &ModelReply) -> Vec<String> {
    let unknown = || "-".to_owned();
    vec![
        model.name.clone(),
        model.size_bytes.map_or_else(unknown, bytes),
        model.context_tokens.map_or_else(unknown, |n| n.to_string()),
        if model.here { "yes" } else { "no" }.to_owned(),
        model.peers.len().to_string(),
        model.id.to_string()[..12].to_owned(),
    ]
}
