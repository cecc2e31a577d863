//! `GET /v1/models`: every model that some peer of the swarm has.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::question::find_model;
use crate::api::wire::code;
use crate::api::{Api, ApiError};
use crate::driver::KnownModel;

/// All of them.
pub(in crate::api) async fn list_models(State(api): State<Api>) -> Json<Value> {
    let catalogue = api.desk.catalogue();
    let data: Vec<Value> = catalogue.models.iter().map(describe).collect();
    Json(json!({ "object": "list", "data": data }))
}

/// One of them, by name or id.
pub(in crate::api) async fn show_model(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    let info = find_model(&api, &name)?;
    let catalogue = api.desk.catalogue();
    let known = catalogue.models.iter().find(|model| model.info.id == info.id);
    known
        .map(|model| Json(describe(model)))
        .ok_or_else(|| ApiError::not_found(code::MODEL_NOT_FOUND, "it has just left"))
}

fn describe(model: &KnownModel) -> Value {
    json!({
        "id": model.info.name,
        "object": "model",
        "created": 0,
        "owned_by": "idlewild",
        "idlewild": {
            "sha256": model.info.id,
            "size_bytes": model.info.size_bytes,
            "context_tokens": model.info.context_tokens,
            "peers": model.peers,
        },
    })
}
