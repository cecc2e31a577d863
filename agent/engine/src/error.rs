//! Why an engine did not do what it was asked to.

use std::time::Duration;

use bincode::{Decode, Encode};

/// A request to the engine failed. What was running goes on unless the variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The child could not be started.
    #[error("the engine could not be started: {0}")]
    Spawn(String),
    /// The child died meanwhile; all its sequences failed.
    #[error("the engine died: {0}")]
    Exited(String),
    /// The model could not be loaded; none is loaded now.
    #[error("the model could not be loaded")]
    Load(#[from] LoadFailure),
    /// The job is for a model that is not the loaded one.
    #[error("another model is loaded")]
    OtherModel,
    /// There is no model to run the job on.
    #[error("no model is loaded")]
    NoModel,
    /// As many sequences as the engine takes exist already, or another load waits.
    #[error("the engine has no room for more")]
    Busy,
    /// The child died a moment ago.
    #[error("the engine restarts in {} ms", retry_in.as_millis())]
    BackingOff {
        /// Until it is started again.
        retry_in: Duration,
    },
    /// The job is larger than a frame may be.
    #[error("the job is too large for the engine's pipe")]
    TooLarge,
    /// The engine was stopped, or its last handle was dropped.
    #[error("the engine was stopped")]
    Stopped,
}

/// Why a model could not be loaded. Nothing of it stays in memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
pub enum LoadFailure {
    /// The file cannot be opened or read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The file is something else.
    #[error("not a GGUF file")]
    NotGguf,
    /// The file has changed or was never the one meant.
    #[error("the file's sha256 is {found}, not {expected}")]
    WrongHash {
        /// What the model is known by.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// llama.cpp refuses the file: truncated, damaged, or a kind of model that it does not know.
    #[error("llama.cpp refuses the file: {0}")]
    Refused(String),
    /// The weights are there, but the KV cache and buffers do not fit.
    #[error("no memory for the context: {0}")]
    NoMemory(String),
    /// The model loads and does not compute.
    #[error("the model does not compute: {0}")]
    Broken(String),
}
