//! Who carries which model, sorted so that a search for the best peer looks at few.
//!
//! ```text
//! model --> cells of (decode rate, prefill rate, queue wait) --> the peers in each, by id
//! ```
//!
//! The best that a cell can offer is at least as good as what any peer in it does: from it follows a lower bound of what any
//! request costs on any of them. Edges of cells are numbers with few bits, so that no rounding puts a peer outside of its cell.
//!
//! Kept with every change of a digest, hence a function of the digests alone: it knows nothing of time, connections and
//! requests, which the search asks when it has found somebody.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use idlewild_protocol::{Digest, ModelId, ModelLoad, PeerId, PeerState};

/// Decode rate of a model that its peer has not measured yet, in tokens a second: low, so that measured peers come first.
const ASSUMED_DECODE_TPS: f32 = 2.0;

/// The same for prefill.
const ASSUMED_PREFILL_TPS: f32 = 20.0;

/// Bits of the mantissa that tell decode rates apart: cells an eighth to a quarter wide.
const DECODE_BITS: u32 = 2;

/// The same for prefill: a quarter to a half, since a prefill is the smaller part of most requests.
const PREFILL_BITS: u32 = 1;

/// The same for waits: within a factor of two.
const WAIT_BITS: u32 = 0;

/// Bits of a 32-bit float's mantissa.
const MANTISSA_BITS: u32 = 23;

fn measured_or(tps: f32, assumed: f32) -> f32 {
    if tps > 0.0 && tps.is_finite() { tps } else { assumed }
}

/// Which cell a peer's offer of a model falls into: the best decode rate first, then prefill rate, then wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CellId {
    decode: Reverse<u16>,
    prefill: Reverse<u16>,
    wait: u16,
}

/// What a peer offers to one more request for a model; or the best that any of several can.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Tokens decoded a second. Positive.
    pub decode_tps: f64,
    /// Tokens prefilled a second. Positive.
    pub prefill_tps: f64,
    /// Seconds before it starts.
    pub wait_s: f64,
}

impl Offer {
    /// As the digest says: as measured, or low where nothing that makes sense was.
    pub fn of(model: &ModelLoad) -> Self {
        Self {
            decode_tps: f64::from(measured_or(model.decode_tps, ASSUMED_DECODE_TPS)),
            prefill_tps: f64::from(measured_or(model.prefill_tps, ASSUMED_PREFILL_TPS)),
            wait_s: f64::from(model.queue_wait_ms) / 1000.0,
        }
    }
}

/// The serving peers that carry one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Carriers {
    cells: BTreeMap<CellId, BTreeMap<PeerId, ModelLoad>>,
}

/// All of them, by model.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Index {
    models: BTreeMap<ModelId, Carriers>,
}

impl Index {
    /// The peer's digest was `before` and is `now`; none where it had, or has, none.
    pub(super) fn change(&mut self, before: Option<&Digest>, now: Option<&Digest>) {
        let (before, now) = (before.filter(|d| serves(d)), now.filter(|d| serves(d)));
        if let (Some(before), Some(now)) = (before, now)
            && before.models == now.models
        {
            return;
        }
        before.iter().for_each(|digest| self.remove(digest));
        now.iter().for_each(|digest| self.insert(digest));
    }

    /// Who carries `model`; none where nobody does.
    pub(super) fn carriers(&self, model: ModelId) -> Option<&Carriers> {
        self.models.get(&model)
    }

    fn insert(&mut self, digest: &Digest) {
        for model in named_once(digest) {
            let carriers = self.models.entry(model.model).or_default();
            carriers.cells.entry(CellId::of(model)).or_default().insert(digest.peer, *model);
        }
    }

    fn remove(&mut self, digest: &Digest) {
        for model in named_once(digest) {
            let Some(carriers) = self.models.get_mut(&model.model) else { continue };
            let id = CellId::of(model);
            if let Some(cell) = carriers.cells.get_mut(&id) {
                cell.remove(&digest.peer);
                if cell.is_empty() {
                    carriers.cells.remove(&id);
                }
            }
            if carriers.cells.is_empty() {
                self.models.remove(&model.model);
            }
        }
    }
}

impl Carriers {
    /// Every cell that holds a peer, with the best that it can offer.
    pub fn cells(&self) -> impl Iterator<Item = (Offer, Cell<'_>)> {
        self.cells.iter().map(|(id, peers)| (id.best_offer(), Cell { peers }))
    }
}

/// Peers that are much alike.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    peers: &'a BTreeMap<PeerId, ModelLoad>,
}

impl<'a> Cell<'a> {
    /// Each, by id, with what it says of the model.
    pub fn peers(self) -> impl Iterator<Item = (PeerId, &'a ModelLoad)> {
        self.peers.iter().map(|(peer, model)| (*peer, model))
    }
}

impl CellId {
    fn of(model: &ModelLoad) -> Self {
        Self {
            decode: Reverse(class(measured_or(model.decode_tps, ASSUMED_DECODE_TPS), DECODE_BITS)),
            prefill: Reverse(class(measured_or(model.prefill_tps, ASSUMED_PREFILL_TPS), PREFILL_BITS)),
            wait: class(model.queue_wait_ms as f32, WAIT_BITS),
        }
    }

    fn best_offer(self) -> Offer {
        Offer {
            decode_tps: edge(self.decode.0.saturating_add(1), DECODE_BITS),
            prefill_tps: edge(self.prefill.0.saturating_add(1), PREFILL_BITS),
            // A wait of more than 2^24 ms was rounded on its way to a float, perhaps up: a cell further down is safe.
            wait_s: edge(if self.wait > class(1.6e7, WAIT_BITS) { self.wait - 1 } else { self.wait }, WAIT_BITS) / 1000.0,
        }
    }
}

/// The leading bits of a float that is not negative: they rise with it.
fn class(x: f32, mantissa_bits: u32) -> u16 {
    (x.to_bits() >> (MANTISSA_BITS - mantissa_bits)) as u16
}

/// The least number of a class; infinite beyond the last.
fn edge(class: u16, mantissa_bits: u32) -> f64 {
    f64::from(f32::from_bits(u32::from(class) << (MANTISSA_BITS - mantissa_bits)))
}

fn serves(digest: &Digest) -> bool {
    digest.state == PeerState::Serving
}

/// Where a digest names a model twice, what it says first counts.
fn named_once(digest: &Digest) -> impl Iterator<Item = &ModelLoad> {
    let models = &digest.models;
    models.iter().enumerate().filter(|(at, m)| models[..*at].iter().all(|before| before.model != m.model)).map(|(_, m)| m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_model() -> impl Strategy<Value = ModelLoad> {
        (any::<f32>(), any::<f32>(), any::<u32>()).prop_map(|(decode_tps, prefill_tps, queue_wait_ms)| ModelLoad {
            model: ModelId([1; 32]),
            loaded: true,
            decode_tps,
            prefill_tps,
            kv_bytes_per_token: 1,
            context_tokens: 1,
            kv_free_tokens: 1,
            queue_wait_ms,
            running: 0,
            slots: 1,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

        #[test]
        fn no_peer_offers_more_than_the_best_of_its_cell(model in any_model()) {
            let (best, offer) = (CellId::of(&model).best_offer(), Offer::of(&model));
            prop_assert!(best.decode_tps >= offer.decode_tps, "{best:?} {offer:?}");
            prop_assert!(best.prefill_tps >= offer.prefill_tps, "{best:?} {offer:?}");
            prop_assert!(best.wait_s <= offer.wait_s, "{best:?} {offer:?}");
            let is_usual = (1e-30..1e30).contains(&offer.decode_tps);
            prop_assert!(!is_usual || best.decode_tps <= offer.decode_tps * 1.2501, "{best:?} {offer:?}");
        }

        #[test]
        fn better_cells_come_first(one in any_model(), other in any_model()) {
            let faster = CellId::of(&one).decode < CellId::of(&other).decode;
            prop_assert!(!faster || Offer::of(&one).decode_tps > Offer::of(&other).decode_tps);
        }
    }
}
