//! How fast the engines of other peers are, as they say: for how long it is reasonable to wait for one of their steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idlewild_coordinator::view::Offer;
use idlewild_engine::reading_step_s;
use idlewild_protocol::{ModelId, ModelLoad, PeerId};

/// A step that reads is not believed to be shorter.
const READING_MIN_S: f64 = 0.25;

/// The longest step that anybody is believed to make.
const STEP_MAX: Duration = Duration::from_secs(10);

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

    /// How long a step of a peer with that model takes at most, beside a context of so many tokens; nothing where it has
    /// not said.
    pub(super) fn step(&self, peer: PeerId, model: ModelId, context_tokens: u32) -> Duration {
        let said = self.said().get(&peer).copied().filter(|said| said.model == model);
        said.map_or(Duration::ZERO, |said| step_of(&said, context_tokens))
    }
}

/// A token of each that decodes, and a piece of a prompt.
fn step_of(model: &ModelLoad, context_tokens: u32) -> Duration {
    let offer = Offer::at_context(model, f64::from(context_tokens), 0.0);
    let reading_s = f64::from(reading_step_s(offer.prefill_tps as f32));
    let seconds = 1.0 / offer.decode_tps + reading_s.max(READING_MIN_S);
    Duration::try_from_secs_f64(seconds).map_or(STEP_MAX, |step| step.min(STEP_MAX))
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

    fn step_ms(said: ModelLoad, context_tokens: u32) -> u128 {
        let holders = Holders::default();
        holders.heard(PEER, &[ModelLoad { loaded: false, decode_tps: 9.0, ..said }, said]);
        holders.step(PEER, MODEL, context_tokens).as_millis()
    }

    #[test]
    fn a_step_is_as_long_as_the_rates_and_the_context_make_it() {
        assert_eq!(step_ms(load(20.0, 1000.0), 0), 300, "a quarter of a second's piece");
        assert_eq!(step_ms(load(20.0, 64.0), 0), 1050, "64 tokens at once, where a step of them is not too long");
        assert_eq!(step_ms(load(2.0, 8.0), 0), 2500, "sixteen tokens of a slow one");
        assert_eq!(step_ms(load(2.0, 8.0), 2000), 5500, "three times the decoding, twice the reading");
        assert_eq!(step_ms(load(1e-3, 1e-3), 1000), STEP_MAX.as_millis());
    }

    #[test]
    fn nothing_is_known_of_strangers_of_other_models_and_of_who_is_gone() {
        let holders = Holders::default();
        assert_eq!(holders.step(PEER, MODEL, 0), Duration::ZERO);
        holders.heard(PEER, &[load(20.0, 1000.0)]);
        assert!(holders.step(PEER, MODEL, 0) > Duration::ZERO);
        assert_eq!(holders.step(PEER, ModelId([3; 32]), 0), Duration::ZERO);
        holders.heard(PEER, &[]);
        assert_eq!(holders.step(PEER, MODEL, 0), Duration::ZERO);
        holders.heard(PEER, &[load(20.0, 1000.0)]);
        holders.keep(|peer| peer != PEER);
        assert_eq!(holders.step(PEER, MODEL, 0), Duration::ZERO);
    }
}
