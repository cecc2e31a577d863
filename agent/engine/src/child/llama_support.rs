//! What the tests over llama.cpp share: the models, and walks over them.

use std::path::PathBuf;

use idlewild_protocol::TokenId;

use super::llama::Llama;
use super::model::{BATCH_TOKENS, Entry, Model};
use crate::config::{KvType, Limits};

/// Set where a test that lacks its model is to fail; `tests/run.sh` does.
const REQUIRE_VARIABLE: &str = "IDLEWILD_REQUIRE_MODELS";

/// A model that tests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// SmolLM2-135M-Instruct, Q4_1: every layer sees everything.
    SmolLm2,
    /// Gemma 3 270M, Q4_K_M: of 18 layers, 15 see the last 512 positions.
    Gemma3,
}

impl Weights {
    fn variable(self) -> &'static str {
        match self {
            Self::SmolLm2 => "IDLEWILD_TEST_MODEL",
            Self::Gemma3 => "IDLEWILD_TEST_MODEL_GEMMA",
        }
    }

    /// The model; without one the test says so and passes, unless it must not.
    pub(crate) fn load(self, limits: Limits) -> Option<Llama> {
        let Some(path) = std::env::var_os(self.variable()).map(PathBuf::from) else {
            let lack = format!("{} is not set: tests/run.sh sets it", self.variable());
            assert!(std::env::var_os(REQUIRE_VARIABLE).is_none(), "{lack}");
            eprintln!("SKIPPED: {lack}");
            return None;
        };
        Some(Llama::load(&path, limits).unwrap())
    }
}

/// One thread, so that the arithmetic is the same every time.
pub(crate) fn limits(slots: u16, kv_tokens: u32) -> Limits {
    Limits { threads: 1, slots, context_tokens: kv_tokens, kv_tokens, kv_type: KvType::F16 }
}

/// A text of `count` ids and one more, of which each part differs from the others: numbers, counted up.
pub(crate) fn counting(model: &Llama, count: usize) -> Vec<TokenId> {
    let mut ids: Vec<TokenId> = model.begin().into_iter().collect();
    let text: Vec<String> = (1..=count).map(|n| format!("{n}, ")).collect();
    ids.extend(model.tokenize(&text.concat()));
    ids.truncate(count + 1);
    assert_eq!(ids.len(), count + 1);
    ids
}

/// Evaluates `ids` from where the slot ends, in pieces that end at multiples of the batch, wherever it begins.
pub(crate) fn prefill(model: &mut Llama, slot: u16, ids: &[TokenId]) {
    let begin = model.held(slot);
    let mut batch = Vec::new();
    for (position, id) in (begin..).zip(ids) {
        batch.push(Entry { slot, position, id: *id, wants_logits: false });
        if (position as usize + 1).is_multiple_of(BATCH_TOKENS) {
            model.evaluate(&batch).unwrap();
            batch.clear();
        }
    }
    if !batch.is_empty() {
        model.evaluate(&batch).unwrap();
    }
}

/// What a slot says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) ids: Vec<TokenId>,
    /// After each id that went in.
    pub(crate) logits: Vec<Vec<f32>>,
}

impl Said {
    /// How much the likeliest choice leads at least.
    pub(crate) fn least_margin(&self) -> f32 {
        let margin = |logits: &Vec<f32>| {
            let mut logits = logits.clone();
            logits.sort_by(|a, b| b.total_cmp(a));
            logits[0] - logits[1]
        };
        self.logits.iter().map(margin).fold(f32::INFINITY, f32::min)
    }

    /// The largest Kullback-Leibler divergence of two distributions at the same place, in nats.
    pub(crate) fn divergence(&self, other: &Self) -> f64 {
        self.logits.iter().zip(&other.logits).map(|(a, b)| divergence(a, b)).fold(0.0, f64::max)
    }
}

fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let (p_sum, q_sum) = (log_sum(p), log_sum(q));
    let terms = p.iter().zip(q).map(|(p, q)| {
        let (p, q) = (f64::from(*p) - p_sum, f64::from(*q) - q_sum);
        p.exp() * (p - q)
    });
    terms.sum()
}

/// The logarithm of the sum of the exponentials.
fn log_sum(logits: &[f32]) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + logits.iter().map(|logit| (f64::from(*logit) - most).exp()).sum::<f64>().ln()
}

/// Evaluates one id where the slot ends; gives the logits after it.
pub(crate) fn step(model: &mut Llama, slot: u16, id: TokenId) -> Vec<f32> {
    let entry = Entry { slot, position: model.held(slot), id, wants_logits: true };
    model.evaluate(&[entry]).unwrap();
    model.logits(0).to_vec()
}

pub(crate) fn likeliest(logits: &[f32]) -> TokenId {
    let (at, _) = logits.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap();
    TokenId(at as u32)
}

/// Goes on greedily for `count` steps, `id` first.
pub(crate) fn go_on(model: &mut Llama, slot: u16, mut id: TokenId, count: usize) -> Said {
    let mut said = Said { ids: Vec::new(), logits: Vec::new() };
    for _ in 0..count {
        let logits = step(model, slot, id);
        id = likeliest(&logits);
        said.ids.push(id);
        said.logits.push(logits);
    }
    said
}
