//! One question put to a model, whichever route it came by: to the origin with it, and back as chunks or as a whole.

use std::time::Duration;

use axum::response::Response;
use idlewild_protocol::{JobInput, MAX_INPUT_BYTES, ModelInfo, RequestId};

use super::params::Params;
use super::reply::{Face, Reply};
use super::{sse, whole};
use crate::api::wire::code;
use crate::api::{Api, ApiError};
use crate::driver::{Catalogue, Readiness};
use crate::origin::GenerationRequest;

/// What a client should wait that came while the agent starts. It takes a few hundred milliseconds.
const STARTING_TAKES: Duration = Duration::from_secs(1);

/// The model that a client means: the one it names, the configured default, or the only one there is.
pub(super) fn model_for(api: &Api, name: Option<&str>) -> Result<ModelInfo, ApiError> {
    let name = name.filter(|name| !name.is_empty()).or(api.default_model.as_deref());
    if let Some(name) = name {
        return find_model(api, name);
    }
    let catalogue = api.desk.catalogue();
    if let Some(only) = catalogue.only() {
        return find_model(api, only);
    }
    if is_starting(api, &catalogue) {
        return Err(starting());
    }
    let message = format!("`model` is missing; models here: {}", catalogue.names().join(", "));
    Err(ApiError::bad_request(Some("model_required"), Some("model"), message))
}

/// The model that a client named; where none has this name, an error that lists those there are.
pub(super) fn find_model(api: &Api, name: &str) -> Result<ModelInfo, ApiError> {
    let catalogue = api.desk.catalogue();
    catalogue.find(name).cloned().ok_or_else(|| {
        if is_starting(api, &catalogue) {
            return starting();
        }
        let known = catalogue.names().join(", ");
        let hint = if known.is_empty() {
            "no peer of this swarm has a model yet; add one with `idlewild models import FILE.gguf`".to_owned()
        } else {
            format!("models here: {known}")
        };
        ApiError::not_found(code::MODEL_NOT_FOUND, format!("the model {name:?} does not exist in this swarm ({hint})"))
    })
}

/// The API listens before anything else is up: what models there are is known a moment later.
fn is_starting(api: &Api, catalogue: &Catalogue) -> bool {
    catalogue.models.is_empty() && api.desk.readiness() == Readiness::Starting
}

fn starting() -> ApiError {
    ApiError::unavailable("this agent is starting and does not know its models yet; try again", STARTING_TAKES)
}

/// What a client writes in few bytes may take more when it is written again: `1e15` becomes `1000000000000000.0`.
fn refuse_too_long(input: &JobInput) -> Result<(), ApiError> {
    let bytes = match input {
        JobInput::Chat { messages_json } => messages_json.len(),
        JobInput::Text { prompt } => prompt.len(),
        // Not of a client's making, and bounded by a context.
        JobInput::Tokens { .. } => 0,
    };
    if bytes > MAX_INPUT_BYTES { Err(ApiError::input_too_large(bytes, MAX_INPUT_BYTES)) } else { Ok(()) }
}

/// Asks the origin, and answers as the client wants it.
pub(super) async fn ask(
    api: &Api,
    face: Face,
    model: &ModelInfo,
    input: JobInput,
    params: &Params,
) -> Result<Response, ApiError> {
    params.refuse_unsupported()?;
    refuse_too_long(&input)?;
    let request = RequestId(rand::random());
    let generation = GenerationRequest {
        request,
        model: model.id,
        input,
        sampling: params.sampling()?,
        max_tokens: params.max_tokens(face.default_max_tokens())?,
        stop: params.stop()?,
    };
    let reply = Reply::new(face, request, model);
    let stream = api.origins.submit(generation).await.map_err(|full| ApiError::too_many(full.open))?;
    Ok(if params.stream == Some(true) {
        let include_usage = params.stream_options.and_then(|options| options.include_usage) == Some(true);
        sse::respond(stream, reply, include_usage).await
    } else {
        whole::respond(stream, reply).await
    })
}
