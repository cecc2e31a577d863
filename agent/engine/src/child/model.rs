//! What the batching loop needs of a model. llama.cpp implements it, and so does the fake.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use idlewild_protocol::{LayoutFingerprint, TokenId};

use super::template::ChatTemplate;

/// Most tokens in one evaluation, of all sequences together.
///
/// A multiple of what a CPU multiplies at once; more gains nothing there and costs buffers of vocabulary x tokens x 4 bytes.
pub(crate) const BATCH_TOKENS: usize = 256;

/// One token to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The sequence's place in the KV cache.
    pub(crate) slot: u16,
    /// The token's place in its sequence, from 0; one more than the last one evaluated in that slot.
    pub(crate) position: u32,
    /// Which token.
    pub(crate) id: TokenId,
    /// Whether the next token is drawn from here.
    pub(crate) wants_logits: bool,
}

/// What is true of a model from load to unload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Tokens of the vocabulary; ids are below it.
    pub(crate) vocabulary: u32,
    /// Most tokens of one sequence: the least of what was asked for, what it was trained for and what the cache holds.
    pub(crate) context_tokens: u32,
    pub(crate) trained_context_tokens: u32,
    /// Tokens that the KV cache holds.
    pub(crate) kv_tokens: u32,
    pub(crate) layers: u32,
    /// Bytes of the file.
    pub(crate) size_bytes: u64,
    /// Bytes of the longest token: a text longer than a context of those need not be tokenised to be refused.
    pub(crate) longest_token_bytes: usize,
}

/// A model in memory, with its KV cache.
pub(crate) trait Model {
    fn facts(&self) -> &Facts;

    /// The ids of a text; special tokens in it are read as such, none is added.
    fn tokenize(&self, text: &str) -> Vec<TokenId>;

    /// The token that every context must begin with, where the model wants one.
    fn begin(&self) -> Option<TokenId>;

    /// Appends the bytes of a token; nothing for control tokens.
    fn piece(&self, id: TokenId, into: &mut Vec<u8>);

    /// Whether the model says with this token that the answer is complete.
    fn is_end(&self, id: TokenId) -> bool;

    /// The model's chat template, or why it has none that works.
    fn template(&self) -> Result<&ChatTemplate, &str>;

    /// Evaluates at most [`BATCH_TOKENS`] entries. On an error each slot named in the batch holds what it held before, or
    /// nothing where the model's memory cannot go back (see `held`).
    fn evaluate(&mut self, batch: &[Entry]) -> Result<(), String>;

    /// The logits after the entry at `index` of the last batch, which asked for them.
    fn logits(&self, index: usize) -> &[f32];

    /// Frees what a slot holds.
    fn forget(&mut self, slot: u16);

    /// Tokens that a slot holds.
    fn held(&self, slot: u16) -> u32;

    /// Bytes that a slot's context would take on the wire.
    fn state_bytes(&self, slot: u16) -> usize;

    /// How the KV cache is laid out; none where contexts of this model are made from ids only.
    fn layout(&self) -> Option<LayoutFingerprint> {
        None
    }

    /// The KV cache of positions [from, to) of a slot, which holds them all. Other slots and the slot itself stay as they
    /// are.
    fn export(&mut self, slot: u16, from: u32, to: u32) -> Result<Vec<u8>, KvError> {
        let _ = (slot, from, to);
        Err(KvError::Unsupported)
    }

    /// Adds positions [from, to), exported by a model of the same layout, to a slot that holds exactly [0, from). Afterwards
    /// it holds exactly [0, to); on an error, exactly what it held before. Nothing of `bytes` is believed.
    fn import(&mut self, slot: u16, from: u32, to: u32, bytes: &[u8]) -> Result<(), KvError> {
        let _ = (slot, from, to, bytes);
        Err(KvError::Unsupported)
    }

    /// Forgets the positions of a slot from `from` on.
    fn truncate(&mut self, slot: u16, from: u32) {
        let _ = (slot, from);
    }

    /// The most positions of a slot, from 0, that evaluation can go on from: all that it holds, except after an import that
    /// brought old positions to a model with a sliding window, without the window. Then truncate to this, and go on there;
    /// or import more.
    fn resumable(&self, slot: u16) -> u32 {
        self.held(slot)
    }

    /// A flag that any thread may set: while it is set, [`Model::evaluate`] ends within milliseconds, with an error and with
    /// the slots as they were before the call. Whoever sets it clears it.
    fn interrupter(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// What a warm-up would measure, where it is known: prefill and decode rates in tokens a second, bytes a token.
    fn known(&self) -> Option<(f32, f32, u32)> {
        None
    }
}

/// Why a part of a KV cache was not exported or imported. The slots hold what they held before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KvError {
    /// Contexts of this model are made from ids only.
    #[error("contexts of this model do not travel")]
    Unsupported,
    /// The slot does not hold those positions, or not just those before them.
    #[error("the slot holds other positions")]
    OtherPositions,
    /// The bytes are not what this model exports for those positions.
    #[error("the bytes are no part of a KV cache: {0}")]
    Malformed(&'static str),
    /// llama.cpp refused.
    #[error("llama.cpp refused: {0}")]
    Refused(String),
}
