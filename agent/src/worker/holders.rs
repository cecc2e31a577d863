//! How fast the engines of other peers are, as they say: for how long it is reasonable to wait for one of their steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idlewild_coordinator::view::Offer;
use idlewild_engine::piece_s;
use idlewild_protocol::{ModelId, ModelLoad, PeerId};

/// A step that only reads is not believed to be shorter.
const READING_MIN_S: f64 = 0.25;

/// The longest step that anybody is believed to make.
const STEP_MAX: Duration = Duration::from_secs(10);

/// How long the steps of a holder's engine take; nothing where it has not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Steps {
    /// The longest: one that reads a prompt while nobody decodes, or one of all that decode.
    pub(super) longest: Duration,
    /// Those of a holder that decodes the context which it gives.
    pub(super) decoding: Duration,
}

/// What others said last. Cheap to clone; all clones are one. Bounded by the peers that the view knows.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders {
    said: Arc<Mutex<BTreeMap<PeerId, ModelLoad>>>,
}

impl Holders {
    fn said(&self) -> MutexGuard<'_, BTreeMap<PeerId, ModelLoad>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer's models, none where it is gone. The loaded one counts: of the others nothing can be pulled.
    pub(super) fn heard(&self, peer: PeerId, models: &[ModelLoad]) {
        let mut said = self.said();
        said.remove(&peer);
        said.extend(models.iter().find(|model| model.loaded).map(|loaded| (peer, *loaded)));
    }

    /// Forgets those that are not known any more.
    pub(super) fn keep(&self, is_known: impl Fn(PeerId) -> bool) {
        self.said().retain(|peer, _| is_known(*peer));
    }

    /// The steps of a peer with that model, beside a context of so many tokens.
    pub(super) fn steps(&self, peer: PeerId, model: ModelId, context_tokens: u32) -> Steps {
        let said = self.said().get(&peer).copied().filter(|said| said.model == model);
        said.map_or(Steps::default(), |said| steps_of(&said, context_tokens))
    }
}

/// A token of each that decodes, and a piece of a prompt.
fn steps_of(model: &ModelLoad, context_tokens: u32) -> Steps {
    let offer = Offer::at_context(model, f64::from(context_tokens), 0.0);
    let reading_s = |has_decoders| f64::from(piece_s(has_decoders, offer.prefill_tps as f32));
    let step = |reading_s: f64| {
        let step = Duration::try_from_secs_f64(1.0 / offer.decode_tps + reading_s);
        step.map_or(STEP_MAX, |step| step.min(STEP_MAX))
    };
    Steps { longest: step(reading_s(false).max(READING_MIN_S)), decoding: step(reading_s(true)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId([1; 32]);
    const MODEL: ModelId = ModelId([2; 32]);

    fn load(decode_tps: f32, prefill_tps: f32) -> ModelLoad {
        ModelLoad {
            model: MODEL,
            loaded: true,
            decode_tps,
            prefill_tps,
            decode_doubles_at: 1000,
            prefill_doubles_at: 1000,
            kv_bytes_per_token: 1,
            context_tokens: 4096,
            kv_free_tokens: 4096,
            queue_wait_ms: 0,
            running: 1,
            slots: 2,
        }
    }

    /// The longest, and one beside a sequence that decodes.
    fn steps_ms(said: ModelLoad, context_tokens: u32) -> (u128, u128) {
        let holders = Holders::default();
        holders.heard(PEER, &[ModelLoad { loaded: false, decode_tps: 9.0, ..said }, said]);
        let Steps { longest, decoding } = holders.steps(PEER, MODEL, context_tokens);
        (longest.as_millis(), decoding.as_millis())
    }

    #[test]
    fn a_step_is_as_long_as_the_rates_and_the_context_make_it() {
        assert_eq!(steps_ms(load(20.0, 1000.0), 0), (300, 66), "a quarter of a second's piece; sixteen tokens");
        assert_eq!(steps_ms(load(20.0, 64.0), 0), (1050, 143), "64 tokens at once; a tenth of a second's");
        assert_eq!(steps_ms(load(2.0, 8.0), 0), (2500, 1000), "sixteen tokens of a slow one; four");
        assert_eq!(steps_ms(load(2.0, 8.0), 2000), (5500, 2500), "three times the decoding, twice the reading");
        let most = STEP_MAX.as_millis();
        assert_eq!(steps_ms(load(1e-3, 1e-3), 1000), (most, most));
    }

    #[test]
    fn nothing_is_known_of_strangers_of_other_models_and_of_who_is_gone() {
        let holders = Holders::default();
        let nothing = Steps::default();
        assert_eq!(holders.steps(PEER, MODEL, 0), nothing);
        holders.heard(PEER, &[load(20.0, 1000.0)]);
        assert_ne!(holders.steps(PEER, MODEL, 0), nothing);
        assert_eq!(holders.steps(PEER, ModelId([3; 32]), 0), nothing);
        holders.heard(PEER, &[]);
        assert_eq!(holders.steps(PEER, MODEL, 0), nothing);
        holders.heard(PEER, &[load(20.0, 1000.0)]);
        holders.keep(|peer| peer != PEER);
        assert_eq!(holders.steps(PEER, MODEL, 0), nothing);
    }
}
