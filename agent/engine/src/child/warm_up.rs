//! The first steps after a load: they show that the model computes, and how fast, before anyone is promised anything.

use std::time::{Duration, Instant};

use idlewild_protocol::TokenId;

use super::model::{Entry, Model};
use super::rates::{FirstLook, Rates};
use crate::{DoublesAt, LoadFailure};

/// Time after which no further measurement begins. The first token, which reads the weights from disk, is not counted:
/// it belongs to loading.
const BUDGET: Duration = Duration::from_millis(500);

/// Prompt tokens of the first and of the second measured piece; the second only if the budget allows for it.
const PIECES: [usize; 2] = [16, 48];

/// Steps measured for a batch of one, and of several.
const STEPS: u32 = 4;

/// Sequences in the larger batch.
const TOGETHER_MAX: u16 = 4;

/// Growth where there is one slot only, so that it was not measured.
const USUAL_GROWTH: f32 = 0.5;

/// Contexts that double the time of a prompt token, and of a decoded one, in units of (weights over KV cache of a token):
/// attention reads the one as often as the rest reads the other, and is the slower at it. Measured on CPUs with SmolLM2 and
/// Gemma 3; steps on longer contexts correct it.
const DOUBLES_AT_SHARES: (f32, f32) = (0.5, 0.26);

/// What a warm-up showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Warm {
    pub(crate) rates: Rates,
    pub(crate) kv_bytes_per_token: u32,
}

/// Runs a few tokens through the model and leaves its cache empty. Of long contexts it believes what is `known`.
pub(crate) fn warm_up(model: &mut dyn Model, slots: u16, known: DoublesAt) -> Result<Warm, LoadFailure> {
    if let Some((prefill_tps, decode_tps, kv_bytes_per_token)) = model.known() {
        return Ok(Warm { rates: Rates::constant(prefill_tps, decode_tps), kv_bytes_per_token });
    }
    let mut trial = Trial { model, began: None, lengths: vec![0; usize::from(slots)] };
    let warm = trial.run(slots, known);
    for slot in 0..slots {
        trial.model.forget(slot);
    }
    warm.map_err(LoadFailure::Broken)
}

fn known_or(known_tokens: u16, assumed_tokens: f32) -> f32 {
    if known_tokens > 0 { f32::from(known_tokens) } else { assumed_tokens }
}

struct Trial<'a> {
    model: &'a mut dyn Model,
    began: Option<Instant>,
    /// Tokens in each slot.
    lengths: Vec<u32>,
}

impl Trial<'_> {
    fn run(&mut self, slots: u16, known: DoublesAt) -> Result<Warm, String> {
        self.evaluate(0..1, 1)?;
        self.began = Some(Instant::now());
        let bytes_before = self.model.state_bytes(0);
        let prefill_tps = self.measure_prefill()?;
        let bytes = self.model.state_bytes(0).saturating_sub(bytes_before);
        let kv_bytes_per_token = (bytes / (self.lengths[0] as usize - 1)) as u32;

        let alone_s = self.measure_steps(1)?.ok_or("no step was measured")?;
        let together = slots.min(TOGETHER_MAX);
        for slot in 1..together {
            self.evaluate(slot..slot + 1, 1)?;
        }
        let together_s = if together > 1 { self.measure_steps(together)? } else { None };
        let growth =
            together_s.map_or(USUAL_GROWTH, |step_s| (step_s / alone_s - 1.0) / f32::from(together.max(2) - 1));
        let ratio = self.model.facts().size_bytes as f32 / kv_bytes_per_token.max(1) as f32;
        let rates = Rates::new(FirstLook {
            prefill_tps,
            decode_tps: 1.0 / alone_s,
            growth,
            context_tokens: self.lengths[0] as f32,
            doubles_at: (
                known_or(known.prefill, ratio * DOUBLES_AT_SHARES.0),
                known_or(known.decode, ratio * DOUBLES_AT_SHARES.1),
            ),
        });
        Ok(Warm { rates, kv_bytes_per_token })
    }

    fn measure_prefill(&mut self) -> Result<f32, String> {
        let first_s = self.evaluate(0..1, PIECES[0])?;
        let first = PIECES[0] as f32 / first_s;
        let [shorter, longer] = PIECES.map(|tokens| tokens as f32);
        let is_affordable = first_s * longer / shorter < BUDGET.as_secs_f32() / 2.0;
        if is_affordable { Ok(longer / self.evaluate(0..1, PIECES[1])?) } else { Ok(first) }
    }

    /// The mean seconds of steps with one token each for the first `sequences` slots; none if there was no time.
    fn measure_steps(&mut self, sequences: u16) -> Result<Option<f32>, String> {
        let mut sum_s = 0.0;
        let mut count = 0_u16;
        while u32::from(count) < STEPS && (sequences == 1 && count == 0 || !self.is_time_up()) {
            sum_s += self.evaluate(0..sequences, 1)?;
            count += 1;
        }
        Ok((count > 0).then(|| sum_s / f32::from(count)))
    }

    fn is_time_up(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() >= BUDGET)
    }

    /// Evaluates `count` tokens in each of the slots; gives the seconds it took.
    fn evaluate(&mut self, slots: core::ops::Range<u16>, count: usize) -> Result<f32, String> {
        let vocabulary = self.model.facts().vocabulary;
        let mut batch = Vec::new();
        for slot in slots {
            let length = &mut self.lengths[usize::from(slot)];
            for at in 0..count {
                let id = TokenId((*length * 97 + 300 + u32::from(slot)) % vocabulary);
                batch.push(Entry { slot, position: *length, id, wants_logits: at + 1 == count });
                *length += 1;
            }
        }
        let began = Instant::now();
        self.model.evaluate(&batch)?;
        let took_s = began.elapsed().as_secs_f32();
        let logits = self.model.logits(batch.len() - 1);
        if logits.iter().all(|logit| !logit.is_finite()) {
            return Err("its first logits are not finite".to_owned());
        }
        Ok(took_s.max(1e-6))
    }
}
