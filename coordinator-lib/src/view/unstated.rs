//! Models that a peer has on disk and that its digest has no room for: it names them, and says nothing else of them.
//!
//! Nothing is assumed of their rates, so that peers which state some come first; yet who asks for such a model is served.

use std::collections::BTreeSet;

use idlewild_protocol::{Digest, MAX_MODELS_PER_DIGEST, ModelId, ModelInfo, ModelLoad};

/// Adds to a digest those of the `named` models that it has left out. A digest that is not full has left out none.
pub(super) fn add(digest: &mut Digest, named: &[ModelInfo]) {
    if digest.models.len() < MAX_MODELS_PER_DIGEST {
        return;
    }
    let queue_wait_ms = digest.models.iter().map(|load| load.queue_wait_ms).max().unwrap_or_default();
    let slots = digest.models.iter().map(|load| load.slots).max().unwrap_or_default();
    let mut known: BTreeSet<ModelId> = digest.models.iter().map(|load| load.model).collect();
    let unstated = named.iter().filter(|model| known.insert(model.id));
    digest.models.extend(unstated.map(|model| ModelLoad {
        model: model.id,
        loaded: false,
        decode_tps: 0.0,
        prefill_tps: 0.0,
        decode_doubles_at: 0,
        prefill_doubles_at: 0,
        kv_bytes_per_token: 0,
        // The peer may have less room; it says so when it is asked.
        context_tokens: model.context_tokens,
        kv_free_tokens: model.context_tokens,
        // As long as for the other models that are not in memory.
        queue_wait_ms,
        running: 0,
        slots,
    }));
}
