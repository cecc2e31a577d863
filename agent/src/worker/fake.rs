//! For tests: an engine that is fast, small and nobody's, and the file that it takes for its model.

use std::path::PathBuf;

use idlewild_engine::{Backend, DoublesAt, Engine, EngineConfig, FakeRates, KvType, ModelFile};
use idlewild_protocol::ModelId;

pub(super) const MODEL: ModelId = ModelId([7; 32]);

/// With one place for 64 tokens.
pub(super) fn config() -> EngineConfig {
    EngineConfig {
        program: PathBuf::from("none"),
        arguments: Vec::new(),
        backend: Backend::Fake(FakeRates::INSTANT),
        threads: 1,
        slots: 1,
        context_tokens: 64,
        kv_tokens: 64,
        kv_type: KvType::F16,
    }
}

/// On a thread of this process; nothing is loaded.
pub(super) fn engine() -> Engine {
    Engine::in_process(config()).0
}

/// Of [`MODEL`].
pub(super) fn file() -> ModelFile {
    ModelFile {
        path: PathBuf::from("fake"),
        id: MODEL,
        verify: false,
        name: "fake".to_owned(),
        doubles_at: DoublesAt::default(),
    }
}
