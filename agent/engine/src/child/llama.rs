//! The model that is real: llama.cpp with one unified KV cache and flash attention.
//!
//! Unified, because contexts are to be moved in ranges (a cache a sequence aborts on a partial copy); flash attention,
//! because without it a damaged context makes other sequences' values non-finite; both the same on every peer, because
//! contexts fit only where the layout is the same. How they move is in [`super::kv`].

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use idlewild_protocol::{LayoutFingerprint, TokenId};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;

use super::kv::certified::{Family, family};
use super::kv::layout::{Hyperparameters, fingerprint};
use super::kv::learn::learn;
use super::kv::parse::Positions;
use super::kv::slots::Slots;
use super::kv::transfer::Transfer;
use super::llama_context::{Context, Failure, Sequence, Shape};
use super::llama_log;
use super::model::{BATCH_TOKENS, Entry, Facts, KvError, Model};
use super::template::ChatTemplate;
use crate::LoadFailure;
use crate::config::Limits;

/// llama.cpp rounds the cells of a cache up to this many itself; asked for in steps of it, it gives what was asked for.
const CELLS_STEP: u32 = 256;

/// What an interrupted evaluation says.
const INTERRUPTED: &str = "the step was interrupted";

/// A loaded model.
pub(crate) struct Llama {
    context: Context,
    slots: Slots,
    travel: Option<Travel>,
    facts: Facts,
    template: Result<ChatTemplate, String>,
}

/// How contexts leave and come; only where the family is certified.
struct Travel {
    layout: LayoutFingerprint,
    transfer: Transfer,
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
        let mut facts = Facts {
            vocabulary: model.n_vocab().unsigned_abs(),
            context_tokens: limits.context_tokens,
            trained_context_tokens: model.n_ctx_train(),
            kv_tokens: limits.kv_tokens,
            layers: model.n_layer(),
            longest_token_bytes: longest_token(&model),
            size_bytes: std::fs::metadata(path).map_or_else(|_| model.size(), |file| file.len()),
        };
        let family = family_of(&model);
        let template = template_of(&model);
        let context = Context::new(model, shape(limits, family)).map_err(LoadFailure::NoMemory)?;
        facts.kv_tokens = context.cells();
        facts.context_tokens = limits.context_tokens.min(facts.trained_context_tokens).min(facts.kv_tokens);
        let slots = Slots::new(limits.slots, None);
        let mut llama = Self { context, slots, travel: None, facts, template };
        if let Some(family) = family {
            llama.certify(family, limits.slots);
        }
        Ok(llama)
    }

    /// Learns the layout from the state of one token. A model whose state is not as expected works, and moves by ids.
    fn certify(&mut self, family: &Family, slots: u16) {
        let window = family.has_window.then(|| self.context.window());
        let first = self.begin().unwrap_or(TokenId(0));
        let entry = Entry { slot: 0, position: 0, id: first, wants_logits: true };
        let state = self.evaluate(&[entry]).and_then(|()| self.context.state(Sequence::of(0)));
        self.forget(0);
        let format = state.map_err(KvError::Refused).and_then(|state| learn(&state, window));
        match format {
            Ok(format) => {
                let layout = fingerprint(&format, &hyperparameters(&self.context));
                self.slots = Slots::new(slots, window);
                self.travel = Some(Travel { layout, transfer: Transfer::new(format, Sequence::of(slots)) });
            }
            Err(error) => tracing::warn!(%error, "contexts of this model do not travel: its state is not as expected"),
        }
    }

    #[cfg(test)]
    pub(crate) fn format(&self) -> Option<&super::kv::Format> {
        self.travel.as_ref().map(|travel| travel.transfer.format())
    }

    /// Checks that each slot holds what comes before its first entry; gives what each holds.
    fn check(&self, batch: &[Entry]) -> Result<Vec<(u16, u32)>, String> {
        let mut held: Vec<(u16, u32)> = Vec::new();
        for entry in batch {
            if held.iter().any(|(slot, _)| *slot == entry.slot) {
                continue;
            }
            let positions = self.slots.held(entry.slot);
            if !self.slots.has(entry.slot) || entry.position != positions {
                return Err(format!("slot {} does not hold what comes before position {}", entry.slot, entry.position));
            }
            if !self.slots.is_complete(entry.slot) {
                return Err(format!("slot {} holds {positions} positions but not their window", entry.slot));
            }
            held.push((entry.slot, positions));
        }
        Ok(held)
    }
}

fn family_of(model: &LlamaModel) -> Option<&'static Family> {
    let architecture = model.meta_val_str("general.architecture").ok()?;
    if model.is_recurrent() || model.is_hybrid() { None } else { family(&architecture) }
}

fn hyperparameters(context: &Context) -> Hyperparameters {
    let model = context.model();
    let pair = |n| Some((model.meta_key_by_index(n).ok()?, model.meta_val_str_by_index(n).ok()?));
    Hyperparameters {
        architecture: model.meta_val_str("general.architecture").unwrap_or_default(),
        metadata: (0..model.meta_count()).filter_map(pair).collect(),
        rope_type: context.rope_type(),
        rope_scale: context.rope_scale(),
    }
}

/// One sequence more than slots where contexts move: layers with a window have cells for each sequence.
fn shape(limits: Limits, family: Option<&Family>) -> Shape {
    Shape {
        cells: limits.kv_tokens.next_multiple_of(CELLS_STEP),
        batch_tokens: BATCH_TOKENS as u32,
        sequences: u32::from(limits.slots) + u32::from(family.is_some()),
        threads: i32::from(limits.threads.min(512)),
        kv_type: limits.kv_type,
    }
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
        let tokens = self.context.model().vocab().tokenize(text.as_bytes(), false, true);
        tokens.into_iter().map(|token| TokenId(token.0.cast_unsigned())).collect()
    }

    fn begin(&self) -> Option<TokenId> {
        let vocab = self.context.model().vocab();
        let bos = vocab.bos().0;
        (vocab.should_add_bos() && bos >= 0).then(|| TokenId(bos.cast_unsigned()))
    }

    fn piece(&self, id: TokenId, into: &mut Vec<u8>) {
        self.context.model().vocab().token_to_piece_into(to_llama(id), into, false, None);
    }

    fn is_end(&self, id: TokenId) -> bool {
        self.context.model().vocab().is_eog(to_llama(id))
    }

    fn template(&self) -> Result<&ChatTemplate, &str> {
        self.template.as_ref().map_err(String::as_str)
    }

    fn evaluate(&mut self, batch: &[Entry]) -> Result<(), String> {
        let before = self.check(batch)?;
        if let Err(failure) = self.context.decode(batch) {
            for (slot, held) in before {
                // What of the window was overwritten is out of the sight of the first position that did not come.
                if !self.context.remove(Sequence::of(slot), held) {
                    self.forget(slot);
                }
            }
            return Err(match failure {
                Failure::Interrupted => INTERRUPTED.to_owned(),
                Failure::Refused(why) => why,
            });
        }
        for entry in batch {
            self.slots.evaluated(entry.slot, entry.position + 1);
        }
        Ok(())
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.context.logits(index).unwrap_or_default()
    }

    fn forget(&mut self, slot: u16) {
        self.truncate(slot, 0);
    }

    fn held(&self, slot: u16) -> u32 {
        self.slots.held(slot)
    }

    fn truncate(&mut self, slot: u16, from: u32) {
        if !self.slots.has(slot) || (from > 0 && from >= self.slots.held(slot)) {
            return;
        }
        let sequence = Sequence::of(slot);
        let first = self.context.first(sequence);
        let is_removed = self.context.remove(sequence, from);
        if is_removed {
            self.slots.truncated(slot, from, first);
        } else {
            // Recurrent memory cannot go back: all of it goes.
            self.context.remove(sequence, 0);
            self.slots.truncated(slot, 0, None);
        }
    }

    fn resumable(&self, slot: u16) -> u32 {
        self.slots.resumable(slot, self.context.first(Sequence::of(slot)))
    }

    fn state_bytes(&self, slot: u16) -> usize {
        self.context.state_bytes(Sequence::of(slot))
    }

    fn layout(&self) -> Option<LayoutFingerprint> {
        self.travel.as_ref().map(|travel| travel.layout)
    }

    fn export(&mut self, slot: u16, from: u32, to: u32) -> Result<Vec<u8>, KvError> {
        let positions = Positions::new(from, to)?;
        if to > self.slots.held(slot) {
            return Err(KvError::OtherPositions);
        }
        let Travel { transfer, .. } = self.travel.as_ref().ok_or(KvError::Unsupported)?;
        transfer.export(&mut self.context, slot, positions)
    }

    fn import(&mut self, slot: u16, from: u32, to: u32, bytes: &[u8]) -> Result<(), KvError> {
        let positions = Positions::new(from, to)?;
        if !self.slots.has(slot) || from != self.slots.held(slot) {
            return Err(KvError::OtherPositions);
        }
        let Travel { transfer, .. } = self.travel.as_ref().ok_or(KvError::Unsupported)?;
        transfer.import(&mut self.context, &mut self.slots, slot, positions, bytes)
    }

    fn interrupter(&self) -> Option<Arc<AtomicBool>> {
        Some(self.context.interrupter())
    }
}

#[cfg(test)]
#[path = "llama_tests.rs"]
mod tests;
