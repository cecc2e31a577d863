//! A context of llama.cpp's: its KV cache, and the evaluation of batches. All that is unsafe about them is here.
//!
//! Not llama-cpp-2's, which keeps its pointer to itself: a running evaluation is interrupted through that pointer only.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

use super::llama_log;
use super::model::Entry;
use crate::config::KvType;

/// What `llama_decode` gives where the interrupting flag was set.
const INTERRUPTED: i32 = 2;

/// What state calls are asked for: everything.
const WHOLE_STATE: sys::llama_state_seq_flags = 0;

/// How a context is made. All that is not named is llama.cpp's default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Cells of the KV cache; a multiple of 256.
    pub(crate) cells: u32,
    /// Most tokens of one batch.
    pub(crate) batch_tokens: u32,
    /// Sequences, scratch ones included.
    pub(crate) sequences: u32,
    pub(crate) threads: i32,
    pub(crate) kv_type: KvType,
}

/// A model with a context. The context is freed before the model that it points into.
pub(crate) struct Context {
    raw: NonNull<sys::llama_context>,
    model: LlamaModel,
    /// llama.cpp reads it during an evaluation; it lives as long as the context.
    interrupt: Arc<AtomicBool>,
    batch: Batch,
}

/// Why a batch was not evaluated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The flag was set.
    Interrupted,
    /// llama.cpp's words, or its number.
    Refused(String),
}

extern "C" fn is_interrupted(flag: *mut c_void) -> bool {
    #[expect(unsafe_code, reason = "llama.cpp passes back what it was given")]
    // SAFETY: the pointer is that of `Context::interrupt`'s flag, which lives until the context is freed.
    let flag = unsafe { &*flag.cast::<AtomicBool>() };
    flag.load(Ordering::Relaxed)
}

#[expect(unsafe_code, reason = "llama.cpp is C++ behind a C interface")]
impl Context {
    /// One unified cache with flash attention; layers with a sliding window keep no more than it.
    pub(crate) fn new(model: LlamaModel, shape: Shape) -> Result<Self, String> {
        let interrupt = Arc::new(AtomicBool::new(false));
        // SAFETY: takes nothing, gives a plain value.
        let mut params = unsafe { sys::llama_context_default_params() };
        params.n_ctx = shape.cells;
        params.n_batch = shape.batch_tokens;
        params.n_ubatch = shape.batch_tokens;
        params.n_seq_max = shape.sequences;
        params.n_threads = shape.threads;
        params.n_threads_batch = shape.threads;
        (params.type_k, params.type_v) = match shape.kv_type {
            KvType::F16 => (sys::GGML_TYPE_F16, sys::GGML_TYPE_F16),
            KvType::Q8 => (sys::GGML_TYPE_Q8_0, sys::GGML_TYPE_Q8_0),
        };
        params.flash_attn_type = sys::LLAMA_FLASH_ATTN_TYPE_ENABLED;
        params.kv_unified = true;
        params.swa_full = false;
        params.no_perf = true;
        params.abort_callback = Some(is_interrupted);
        params.abort_callback_data = Arc::as_ptr(&interrupt).cast_mut().cast();
        // SAFETY: the model is valid and only this context is being made of it; the flag outlives the context.
        let raw = unsafe { sys::llama_init_from_model(model_pointer(&model), params) };
        let raw = NonNull::new(raw).ok_or_else(|| words("llama.cpp made no context"))?;
        Ok(Self { raw, model, interrupt, batch: Batch::default() })
    }

    pub(crate) fn model(&self) -> &LlamaModel {
        &self.model
    }

    /// While this flag is set no batch is evaluated, and one that is being evaluated ends in [`Failure::Interrupted`]
    /// after the operation under way.
    pub(crate) fn interrupter(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupt)
    }

    /// Tokens that the cache holds.
    pub(crate) fn cells(&self) -> u32 {
        // SAFETY: the context is valid.
        unsafe { sys::llama_n_ctx(self.raw.as_ptr()) }
    }

    /// Positions that a layer with a sliding window looks back to, its own included; 0 where the model has no such layer.
    pub(crate) fn window(&self) -> u32 {
        // SAFETY: the model is valid and not changed.
        unsafe { sys::llama_model_n_swa(model_pointer(&self.model)) }.max(0).unsigned_abs()
    }

    /// The factor by which positions were scaled in training.
    pub(crate) fn rope_scale(&self) -> f32 {
        // SAFETY: as above.
        unsafe { sys::llama_model_rope_freq_scale_train(model_pointer(&self.model)) }
    }

    /// How positions turn keys; llama.cpp's number.
    pub(crate) fn rope_type(&self) -> i32 {
        // SAFETY: as above.
        unsafe { sys::llama_model_rope_type(model_pointer(&self.model)) }
    }

    /// Evaluates a batch. On a failure the named sequences may hold a part of it.
    pub(crate) fn decode(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        let batch = self.batch.fill(entries);
        llama_log::take_first_error();
        // SAFETY: the context is valid; the batch's pointers are to arrays as long as it says, alive for the call.
        match unsafe { sys::llama_decode(self.raw.as_ptr(), batch) } {
            0 => Ok(()),
            INTERRUPTED => Err(Failure::Interrupted),
            code => Err(Failure::Refused(words(&format!("llama.cpp failed to evaluate a batch ({code})")))),
        }
    }

    /// The logits after entry `index` of the last batch; none where it asked for none.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        let index = i32::try_from(index).ok()?;
        let length = self.model.n_vocab().unsigned_abs() as usize;
        // SAFETY: the context is valid; an index that the last batch has no logits for gives null.
        let first = unsafe { sys::llama_get_logits_ith(self.raw.as_ptr(), index) };
        // SAFETY: one float a token of the vocabulary, unchanged until the next batch, which needs `&mut self`.
        (!first.is_null()).then(|| unsafe { core::slice::from_raw_parts(first, length) })
    }

    /// Lets sequence `to` have positions [p0, p1) of `from` too. No values are copied.
    pub(crate) fn share(&mut self, from: Sequence, to: Sequence, p0: u32, p1: u32) {
        // SAFETY: the memory is the context's; ids are below the shape's (`Sequence`), which llama.cpp asserts.
        unsafe { sys::llama_memory_seq_cp(self.memory(), from.0, to.0, p0.cast_signed(), p1.cast_signed()) }
    }

    /// Takes positions from `p0` on from a sequence; false where this kind of memory cannot do so.
    pub(crate) fn remove(&mut self, sequence: Sequence, p0: u32) -> bool {
        // SAFETY: as above.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence.0, p0.cast_signed(), -1) }
    }

    /// The first position of a sequence in the cache that drops the most; none where that is empty.
    pub(crate) fn first(&self, sequence: Sequence) -> Option<u32> {
        // SAFETY: as above.
        u32::try_from(unsafe { sys::llama_memory_seq_pos_min(self.memory(), sequence.0) }).ok()
    }

    /// The last position of a sequence in that cache.
    pub(crate) fn last(&self, sequence: Sequence) -> Option<u32> {
        // SAFETY: as above.
        u32::try_from(unsafe { sys::llama_memory_seq_pos_max(self.memory(), sequence.0) }).ok()
    }

    /// Bytes of a sequence's state.
    pub(crate) fn state_bytes(&self, sequence: Sequence) -> usize {
        // SAFETY: the context is valid.
        unsafe { sys::llama_state_seq_get_size_ext(self.raw.as_ptr(), sequence.0, WHOLE_STATE) }
    }

    /// A sequence's state in llama.cpp's format.
    pub(crate) fn state(&self, sequence: Sequence) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; self.state_bytes(sequence)];
        let (to, room) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the context is valid; llama.cpp writes at most `room` bytes.
        let written =
            unsafe { sys::llama_state_seq_get_data_ext(self.raw.as_ptr(), to, room, sequence.0, WHOLE_STATE) };
        if written == room && room > 0 { Ok(bytes) } else { Err(words("it wrote no state")) }
    }

    /// Replaces what a sequence holds. On an error it may hold a part.
    ///
    /// Only for bytes that [`super::kv`]'s parser has passed: llama.cpp believes most of what they say.
    pub(crate) fn set_state(&mut self, sequence: Sequence, bytes: &[u8]) -> Result<(), String> {
        llama_log::take_first_error();
        let (from, length) = (bytes.as_ptr(), bytes.len());
        // SAFETY: the context is valid; llama.cpp reads at most `length` bytes and checks before each read.
        let read =
            unsafe { sys::llama_state_seq_set_data_ext(self.raw.as_ptr(), from, length, sequence.0, WHOLE_STATE) };
        if read == length { Ok(()) } else { Err(words("it did not take the state")) }
    }

    fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is valid.
        unsafe { sys::llama_get_memory(self.raw.as_ptr()) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "nobody else frees it")]
        // SAFETY: made by `new`, freed once, and the model is dropped only after this.
        unsafe {
            sys::llama_free(self.raw.as_ptr());
        }
    }
}

/// A sequence of the context: a slot's, or the one scratch sequence after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(i32);

impl Sequence {
    /// `slot` is below the shape's sequences.
    pub(crate) fn of(slot: u16) -> Self {
        Self(i32::from(slot))
    }
}

fn model_pointer(model: &LlamaModel) -> *mut sys::llama_model {
    const { assert!(size_of::<LlamaModel>() == size_of::<*mut sys::llama_model>()) }
    #[expect(unsafe_code, reason = "llama-cpp-2 keeps the pointer to itself")]
    // SAFETY: `LlamaModel` is `repr(transparent)` over a `repr(transparent)` wrapper of `NonNull<llama_model>` in the one
    // version of llama-cpp-2 that Cargo.toml permits.
    unsafe {
        core::mem::transmute_copy::<LlamaModel, *mut sys::llama_model>(model)
    }
}

/// llama.cpp's own words where it had any.
fn words(otherwise: &str) -> String {
    llama_log::take_first_error().unwrap_or_else(|| otherwise.to_owned())
}

/// The arrays that a batch points into, kept so that steps allocate nothing.
#[derive(Default)]
struct Batch {
    tokens: Vec<i32>,
    positions: Vec<i32>,
    counts: Vec<i32>,
    sequences: Vec<i32>,
    sequence_pointers: Vec<*mut i32>,
    wants: Vec<i8>,
}

impl Batch {
    /// Valid until the next call; llama.cpp reads it only.
    fn fill(&mut self, entries: &[Entry]) -> sys::llama_batch {
        fn set<T>(to: &mut Vec<T>, from: impl Iterator<Item = T>) {
            to.clear();
            to.extend(from);
        }
        // Ids are below the vocabulary's size, and positions below the cache's, both of which llama.cpp holds as i32.
        set(&mut self.tokens, entries.iter().map(|entry| entry.id.0.cast_signed()));
        set(&mut self.positions, entries.iter().map(|entry| entry.position.cast_signed()));
        set(&mut self.sequences, entries.iter().map(|entry| i32::from(entry.slot)));
        set(&mut self.wants, entries.iter().map(|entry| i8::from(entry.wants_logits)));
        set(&mut self.counts, entries.iter().map(|_| 1));
        set(&mut self.sequence_pointers, self.sequences.iter_mut().map(core::ptr::from_mut));
        sys::llama_batch {
            n_tokens: i32::try_from(entries.len()).unwrap_or(i32::MAX),
            token: self.tokens.as_mut_ptr(),
            embd: core::ptr::null_mut(),
            pos: self.positions.as_mut_ptr(),
            n_seq_id: self.counts.as_mut_ptr(),
            seq_id: self.sequence_pointers.as_mut_ptr(),
            logits: self.wants.as_mut_ptr(),
        }
    }
}
