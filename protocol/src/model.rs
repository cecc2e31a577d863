//! What peers tell each other about a model.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::ModelId;

/// The most bytes of a name (of a model, a peer, a file).
pub const MAX_NAME_BYTES: usize = 96;

/// A model as the peer that has it describes it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The SHA-256 of the file.
    pub id: ModelId,
    /// What people call it, such as `smollm2-135m-instruct-q4_1` (at most [`MAX_NAME_BYTES`] bytes).
    pub name: String,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Tokens of context that a request may have at that peer: what the model was trained for, or less by the peer's own
    /// settings.
    pub context_tokens: u32,
}

impl ModelInfo {
    /// Whether the name is short enough and not empty.
    pub fn is_valid(&self) -> bool {
        !self.name.is_empty() && self.name.len() <= MAX_NAME_BYTES
    }
}
