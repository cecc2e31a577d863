//! Who carries which model, sorted so that a search for the best peer looks at few.
//!
//! ```text
//! model --> groups by decode rate --> cells by prefill rate and queue wait --> the peers in each, by id
//! ```
//!
//! The best that a group or a cell can offer is at least as good as what any peer in it does: from it follows a lower
//! bound of what any request costs on any of them. Edges of cells are numbers with few bits, so that no rounding puts a
//! peer outside of its cell.
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

/// Tokens a second that a machine could have: anything else is no measurement.
const MEASURABLE_TPS: core::ops::RangeInclusive<f32> = 1e-3..=1e6;

/// Bits of the mantissa that tell decode rates apart: cells an eighth to a quarter wide.
const DECODE_BITS: u32 = 2;

/// The same for prefill: a quarter to a half, since a prefill is the smaller part of most requests.
const PREFILL_BITS: u32 = 1;

/// The same for waits: within a factor of two.
const WAIT_BITS: u32 = 0;

/// Bits of a 32-bit float's mantissa.
const MANTISSA_BITS: u32 = 23;

fn measured_or(tps: f32, assumed: f32) -> f32 {
    if MEASURABLE_TPS.contains(&tps) { tps } else { assumed }
}

/// The class of a decode rate, the fastest first.
type DecodeClass = Reverse<u16>;

/// Which cell of its group a peer's offer of a model falls into: the best prefill rate first, then the shortest wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CellId {
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
    /// As the digest says, at an empty context: as measured, or low where nothing that makes sense was.
    pub fn of(model: &ModelLoad) -> Self {
        Self {
            decode_tps: f64::from(measured_or(model.decode_tps, ASSUMED_DECODE_TPS)),
            prefill_tps: f64::from(measured_or(model.prefill_tps, ASSUMED_PREFILL_TPS)),
            wait_s: f64::from(model.queue_wait_ms) / 1000.0,
        }
    }

    /// The same to a request with so many tokens of context, of which `more_tokens` are expected to follow: means over the
    /// prefill of the one and the decoding of the other. Never more than at an empty context.
    pub fn at_context(model: &ModelLoad, context_tokens: f64, more_tokens: f64) -> Self {
        let empty = Self::of(model);
        Self {
            decode_tps: empty.decode_tps / slowdown(model.decode_doubles_at, context_tokens + more_tokens / 2.0),
            prefill_tps: empty.prefill_tps / slowdown(model.prefill_doubles_at, context_tokens / 2.0),
            ..empty
        }
    }
}

/// How many times longer a token takes at a context of so many tokens; 1 where it is not known. What peers say is bounded
/// by their contexts, so that the factor is, too.
fn slowdown(doubles_at: u16, context_tokens: f64) -> f64 {
    if doubles_at == 0 || context_tokens.is_nan() {
        return 1.0;
    }
    1.0 + context_tokens.clamp(0.0, f64::from(u32::MAX)) / f64::from(doubles_at)
}

/// The serving peers that carry one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Carriers {
    groups: BTreeMap<DecodeClass, Cells>,
}

/// The peers of one decode class.
#[derive(Debug, Clone, PartialEq, Default)]
struct Cells {
    cells: BTreeMap<CellId, BTreeMap<PeerId, ModelLoad>>,
    /// The shortest wait of any cell.
    wait: u16,
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
        if let Some(digest) = before {
            self.remove(digest);
        }
        if let Some(digest) = now {
            self.insert(digest);
        }
    }

    /// Who carries `model`; none where nobody does.
    pub(super) fn carriers(&self, model: ModelId) -> Option<&Carriers> {
        self.models.get(&model)
    }

    fn insert(&mut self, digest: &Digest) {
        for model in named_once(digest) {
            let carriers = self.models.entry(model.model).or_default();
            let group = carriers.groups.entry(decode_class(model)).or_default();
            group.cells.entry(CellId::of(model)).or_default().insert(digest.peer, *model);
            group.note_wait();
        }
    }

    fn remove(&mut self, digest: &Digest) {
        for model in named_once(digest) {
            let Some(carriers) = self.models.get_mut(&model.model) else { continue };
            carriers.remove(digest.peer, model);
            if carriers.groups.is_empty() {
                self.models.remove(&model.model);
            }
        }
    }
}

impl Carriers {
    /// Every group, with the best that it can offer.
    pub fn groups(&self) -> impl Iterator<Item = (Offer, Group<'_>)> {
        self.groups.iter().filter_map(|(decode, cells)| {
            let group = Group { decode: *decode, cells };
            Some((group.best_offer()?, group))
        })
    }

    fn remove(&mut self, peer: PeerId, model: &ModelLoad) {
        let (decode, id) = (decode_class(model), CellId::of(model));
        let Some(group) = self.groups.get_mut(&decode) else { return };
        if let Some(cell) = group.cells.get_mut(&id) {
            cell.remove(&peer);
            if cell.is_empty() {
                group.cells.remove(&id);
                group.note_wait();
            }
        }
        if group.cells.is_empty() {
            self.groups.remove(&decode);
        }
    }
}

/// Peers that decode alike.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    decode: DecodeClass,
    cells: &'a Cells,
}

impl<'a> Group<'a> {
    /// Every cell, with the best that it can offer.
    pub fn cells(self) -> impl Iterator<Item = (Offer, Cell<'a>)> {
        self.cells.cells.iter().map(move |(id, peers)| (best_offer(self.decode, *id), Cell { peers }))
    }

    fn best_offer(self) -> Option<Offer> {
        let (fastest, _) = self.cells.cells.first_key_value()?;
        Some(best_offer(self.decode, CellId { wait: self.cells.wait, ..*fastest }))
    }
}

impl Cells {
    fn note_wait(&mut self) {
        self.wait = self.cells.keys().map(|id| id.wait).min().unwrap_or_default();
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
            prefill: Reverse(class(measured_or(model.prefill_tps, ASSUMED_PREFILL_TPS), PREFILL_BITS)),
            wait: class(model.queue_wait_ms as f32, WAIT_BITS),
        }
    }
}

fn decode_class(model: &ModelLoad) -> DecodeClass {
    Reverse(class(measured_or(model.decode_tps, ASSUMED_DECODE_TPS), DECODE_BITS))
}

fn best_offer(decode: DecodeClass, id: CellId) -> Offer {
    Offer {
        decode_tps: edge(decode.0.saturating_add(1), DECODE_BITS),
        prefill_tps: edge(id.prefill.0.saturating_add(1), PREFILL_BITS),
        // A wait of more than 2^24 ms was rounded on its way to a float, perhaps up: a class further down is safe.
        wait_s: edge(if id.wait > class(1.6e7, WAIT_BITS) { id.wait - 1 } else { id.wait }, WAIT_BITS) / 1000.0,
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
    models
        .iter()
        .enumerate()
        .filter(|(at, m)| models[..*at].iter().all(|before| before.model != m.model))
        .map(|(_, m)| m)
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
            decode_doubles_at: 0,
            prefill_doubles_at: 0,
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
            let (best, offer) = (best_offer(decode_class(&model), CellId::of(&model)), Offer::of(&model));
            prop_assert!(best.decode_tps >= offer.decode_tps, "{best:?} {offer:?}");
            prop_assert!(best.prefill_tps >= offer.prefill_tps, "{best:?} {offer:?}");
            prop_assert!(best.wait_s <= offer.wait_s, "{best:?} {offer:?}");
            prop_assert!(best.decode_tps <= offer.decode_tps * 1.2501, "{best:?} {offer:?}");
        }

        #[test]
        fn faster_groups_come_first(one in any_model(), other in any_model()) {
            let faster = decode_class(&one) < decode_class(&other);
            prop_assert!(!faster || Offer::of(&one).decode_tps > Offer::of(&other).decode_tps);
        }
    }
}
