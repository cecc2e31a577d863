//! The fake with somebody who interferes: a halt in the middle of a step, an import that lies.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use idlewild_protocol::LayoutFingerprint;

use super::*;
use crate::child::model::{Facts, KvError};
use crate::child::template::ChatTemplate;

/// What a test wants to happen inside the model.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The evaluation, counted from now, in the middle of which the halt comes; 0: none.
    pub(super) halt_in: AtomicU32,
    /// Whether that halt is over before the evaluation is.
    pub(super) lifts: AtomicBool,
    /// Whether imports succeed in words and lose their last position.
    pub(super) lies: AtomicBool,
    /// An import that ends before this position brings no window.
    pub(super) window_from: AtomicU32,
    /// Tokens of the largest batch so far.
    pub(super) largest: AtomicU32,
}

pub(super) struct Meddler {
    pub(super) fake: Fake,
    pub(super) halt: Arc<Halt>,
    pub(super) orders: Arc<Orders>,
    /// Slots whose window was not imported.
    pub(super) bare: BTreeSet<u16>,
}

impl Model for Meddler {
    fn facts(&self) -> &Facts {
        self.fake.facts()
    }

    fn tokenize(&self, text: &str) -> Vec<TokenId> {
        self.fake.tokenize(text)
    }

    fn begin(&self) -> Option<TokenId> {
        self.fake.begin()
    }

    fn piece(&self, id: TokenId, into: &mut Vec<u8>) {
        self.fake.piece(id, into);
    }

    fn is_end(&self, id: TokenId) -> bool {
        self.fake.is_end(id)
    }

    fn template(&self) -> Result<&ChatTemplate, &str> {
        self.fake.template()
    }

    fn evaluate(&mut self, batch: &[Entry]) -> Result<(), String> {
        self.orders.largest.fetch_max(batch.len() as u32, Ordering::SeqCst);
        let halt_in = self.orders.halt_in.load(Ordering::SeqCst);
        self.orders.halt_in.store(halt_in.saturating_sub(1), Ordering::SeqCst);
        if halt_in == 1 {
            self.halt.set(true);
        }
        let outcome = self.fake.evaluate(batch);
        if halt_in == 1 && self.orders.lifts.load(Ordering::SeqCst) {
            self.halt.set(false);
        }
        outcome
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.fake.logits(index)
    }

    fn forget(&mut self, slot: u16) {
        self.bare.remove(&slot);
        self.fake.forget(slot);
    }

    fn held(&self, slot: u16) -> u32 {
        self.fake.held(slot)
    }

    fn state_bytes(&self, slot: u16) -> usize {
        self.fake.state_bytes(slot)
    }

    fn layout(&self) -> Option<LayoutFingerprint> {
        self.fake.layout()
    }

    fn export(&mut self, slot: u16, from: u32, to: u32) -> Result<Vec<u8>, KvError> {
        self.fake.export(slot, from, to)
    }

    fn import(&mut self, slot: u16, from: u32, to: u32, bytes: &[u8]) -> Result<(), KvError> {
        self.fake.import(slot, from, to, bytes)?;
        if to < self.orders.window_from.load(Ordering::SeqCst) {
            self.bare.insert(slot);
        } else {
            self.bare.remove(&slot);
        }
        if self.orders.lies.load(Ordering::SeqCst) {
            self.fake.truncate(slot, to - 1);
        }
        Ok(())
    }

    fn truncate(&mut self, slot: u16, from: u32) {
        self.bare.remove(&slot);
        self.fake.truncate(slot, from);
    }

    fn resumable(&self, slot: u16) -> u32 {
        if self.bare.contains(&slot) { self.held(slot).min(1) } else { self.held(slot) }
    }

    fn interrupter(&self) -> Option<Arc<AtomicBool>> {
        self.fake.interrupter()
    }
}

/// A batcher over the meddler.
pub(super) fn meddled(slots: u16, kv_tokens: u32) -> (Batcher, Arc<Halt>, Arc<Orders>) {
    let (halt, orders) = (Arc::<Halt>::default(), Arc::<Orders>::default());
    let fake = Fake::load(FakeRates::INSTANT, limits(slots, kv_tokens));
    let model = Meddler { fake, halt: Arc::clone(&halt), orders: Arc::clone(&orders), bare: BTreeSet::new() };
    (over(Box::new(model), slots, Arc::clone(&halt)), halt, orders)
}
