//! The model that is real: llama.cpp with one unified KV cache and flash attention.
//!
//! Unified, because contexts are to be moved in ranges (a cache a sequence aborts on a partial copy); flash attention,
//! because without it a damaged context makes other sequences' values non-finite; both the same on every peer, because
//! contexts fit only where the layout is the same.

use core::num::NonZeroU32;
use std::path::Path;
use std::sync::OnceLock;

use idlewild_protocol::TokenId;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{DecodeError, LlamaStateSeqFlags};

use super::llama_log;
use super::model::{BATCH_TOKENS, Entry, Facts, Model};
use super::template::ChatTemplate;
use crate::LoadFailure;
use crate::config::Limits;

/// llama.cpp rounds the cells of a cache up to this many itself; asked for in steps of it, it gives what was asked for.
const CELLS_STEP: u32 = 256;

/// A loaded model. Fields drop in order: the context before the model that it points into.
pub(crate) struct Llama {
    context: LlamaContext<'static>,
    batch: LlamaBatch<'static>,
    model: Box<LlamaModel>,
    facts: Facts,
    template: Result<ChatTemplate, String>,
}

fn backend() -> Result<&'static LlamaBackend, LoadFailure> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    llama_log::redirect();
    let backend = BACKEND.get_or_init(|| LlamaBackend::init().ok()).as_ref();
    backend.ok_or_else(|| LoadFailure::Refused("llama.cpp did not start".to_owned()))
}

impl Llama {
    pub(crate) fn load(path: &Path, limits: Limits) -> Result<Self, LoadFailure> {
        let backend = backend()?;
        llama_log::take_first_error();
        let model = LlamaModel::load_from_file(backend, path, &LlamaModelParams::default())
            .map_err(|error| LoadFailure::Refused(reason(&error)))?;
        let model = Box::new(model);
        let mut facts = Facts {
            vocabulary: model.n_vocab().unsigned_abs(),
            context_tokens: limits.context_tokens,
            trained_context_tokens: model.n_ctx_train(),
            kv_tokens: limits.kv_tokens,
            layers: model.n_layer(),
            longest_token_bytes: longest_token(&model),
            size_bytes: std::fs::metadata(path).map_or_else(|_| model.size(), |file| file.len()),
        };
        let context = model.new_context(backend, params(limits)).map_err(|e| LoadFailure::NoMemory(reason(&e)))?;
        facts.kv_tokens = context.n_ctx();
        facts.context_tokens = limits.context_tokens.min(facts.trained_context_tokens).min(facts.kv_tokens);
        let template = template_of(&model);
        Ok(Self { context: outlive(context), batch: LlamaBatch::new(BATCH_TOKENS, 1), model, facts, template })
    }
}

#[expect(unsafe_code, reason = "a model and the context that points into it live in one struct")]
fn outlive(context: LlamaContext<'_>) -> LlamaContext<'static> {
    // SAFETY: the lifetime only says that the context must not outlive the model, which it holds as a C pointer that does
    // not move. `Llama` owns both, never gives the context away and drops it first.
    unsafe { core::mem::transmute::<LlamaContext<'_>, LlamaContext<'static>>(context) }
}

/// Bytes of the longest token, special ones as they are written.
fn longest_token(model: &LlamaModel) -> usize {
    let vocab = model.vocab();
    let mut piece = Vec::new();
    let length = |id| {
        piece.clear();
        vocab.token_to_piece_into(LlamaToken(id), &mut piece, true, None);
        piece.len()
    };
    (0..model.n_vocab()).map(length).max().unwrap_or(0).max(1)
}

fn params(limits: Limits) -> LlamaContextParams {
    let threads = i32::from(limits.threads.min(512));
    LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(limits.kv_tokens.next_multiple_of(CELLS_STEP)))
        .with_n_batch(BATCH_TOKENS as u32)
        .with_n_ubatch(BATCH_TOKENS as u32)
        .with_n_seq_max(u32::from(limits.slots))
        .with_n_threads(threads)
        .with_n_threads_batch(threads)
        .with_flash_attention_policy(llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_ENABLED)
        .with_kv_unified(true)
        .with_no_perf(true)
}

/// llama.cpp's own words where it had any.
fn reason(error: &dyn core::error::Error) -> String {
    llama_log::take_first_error().unwrap_or_else(|| error.to_string())
}

fn template_of(model: &LlamaModel) -> Result<ChatTemplate, String> {
    let source = model.chat_template(None).map_err(|_| "it has no chat template: give it a text to go on with")?;
    let source = source.to_str().map_err(|_| "its chat template is not text")?;
    let vocab = model.vocab();
    let text_of = |token: LlamaToken| {
        if token.0 < 0 {
            return String::new();
        }
        vocab.text(token).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    };
    ChatTemplate::new(source, &text_of(vocab.bos()), &text_of(vocab.eos()))
        .map_err(|why| format!("its chat template cannot be read: {why}"))
}

/// Ids are below the vocabulary's size, which llama.cpp holds as an i32.
fn to_llama(id: TokenId) -> LlamaToken {
    LlamaToken(id.0.cast_signed())
}

impl Model for Llama {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn tokenize(&self, text: &str) -> Vec<TokenId> {
        let tokens = self.model.vocab().tokenize(text.as_bytes(), false, true);
        tokens.into_iter().map(|token| TokenId(token.0.cast_unsigned())).collect()
    }

    fn begin(&self) -> Option<TokenId> {
        let vocab = self.model.vocab();
        let bos = vocab.bos().0;
        (vocab.should_add_bos() && bos >= 0).then(|| TokenId(bos.cast_unsigned()))
    }

    fn piece(&self, id: TokenId, into: &mut Vec<u8>) {
        self.model.vocab().token_to_piece_into(to_llama(id), into, false, None);
    }

    fn is_end(&self, id: TokenId) -> bool {
        self.model.vocab().is_eog(to_llama(id))
    }

    fn template(&self) -> Result<&ChatTemplate, &str> {
        self.template.as_ref().map_err(String::as_str)
    }

    fn evaluate(&mut self, batch: &[Entry]) -> Result<(), String> {
        self.batch.clear();
        for entry in batch {
            let (position, slot) = (entry.position.cast_signed(), i32::from(entry.slot));
            self.batch
                .add(to_llama(entry.id), position, &[slot], entry.wants_logits)
                .map_err(|error| error.to_string())?;
        }
        llama_log::take_first_error();
        self.context.decode(&mut self.batch).map_err(|error: DecodeError| reason(&error))
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.context.get_logits_ith(i32::try_from(index).unwrap_or(i32::MAX))
    }

    fn forget(&mut self, slot: u16) {
        // The whole of a sequence can always be removed.
        let _ = self.context.clear_kv_cache_seq(Some(u32::from(slot)), None, None);
    }

    fn held(&self, slot: u16) -> u32 {
        (self.context.kv_cache_seq_pos_max(i32::from(slot)) + 1).unsigned_abs()
    }

    fn state_bytes(&self, slot: u16) -> usize {
        self.context.state_seq_get_size_ext(i32::from(slot), LlamaStateSeqFlags::empty())
    }
}

#[cfg(test)]
#[path = "llama_tests.rs"]
mod tests;
