//! From a file to a model that has shown that it computes.

use std::time::Instant;

use super::fake::Fake;
use super::llama::Llama;
use super::model::Model;
use super::rates::Rates;
use super::verify::verify;
use super::warm_up::{Warm, warm_up};
use crate::config::Limits;
use crate::{Backend, LoadFailure, LoadedModel, ModelFile};

/// A model ready for work.
pub(crate) struct Loaded {
    pub(crate) model: Box<dyn Model>,
    pub(crate) rates: Rates,
    pub(crate) report: LoadedModel,
}

/// Checks, loads and warms up. Nothing stays in memory on a failure.
pub(crate) fn load(backend: Backend, limits: Limits, file: &ModelFile) -> Result<Loaded, LoadFailure> {
    let began = Instant::now();
    let mut model: Box<dyn Model> = match backend {
        Backend::Llama => {
            verify(file)?;
            Box::new(Llama::load(&file.path, limits)?)
        }
        Backend::Fake(rates) => Box::new(Fake::load(rates, limits)),
    };
    let Warm { rates, kv_bytes_per_token } = warm_up(&mut *model, limits.slots, file.doubles_at)?;
    let facts = model.facts();
    let report = LoadedModel {
        id: file.id,
        name: file.name.clone(),
        context_tokens: facts.context_tokens,
        trained_context_tokens: facts.trained_context_tokens,
        kv_bytes_per_token,
        size_bytes: facts.size_bytes,
        load_ms: u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX),
        vocabulary: facts.vocabulary,
        layers: facts.layers,
        layout: model.layout(),
    };
    Ok(Loaded { model, rates, report })
}
