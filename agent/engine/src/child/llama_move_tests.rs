//! The certification of families: 64 greedy tokens after a move are those without one.
//!
//! Two instances of a model stand for two peers. The source goes on decoding while it is exported, and is the reference.
//! The tokens must be the same, and the distributions that they are drawn from as near as additions in another order leave
//! them; where the order is the same, the bits must be.

use idlewild_protocol::TokenId;

use super::kv::fields::fields;
use super::llama::Llama;
use super::llama_support::{Said, Weights, counting, go_on, likeliest, limits, prefill, step};
use super::model::Model;
use crate::config::{KvType, Limits};

/// Tokens compared after a move.
const COMPARED: usize = 64;

/// Positions of a chunk.
const CHUNK: u32 = 128;

/// The slot that holds the prompt, and from which contexts of several lengths are forked.
const PROMPT: u16 = 0;

/// The slot that decodes.
const RUNNING: u16 = 1;

/// Most positions that a hybrid destination prefills itself here: more only takes time.
const OWN_MAX: u32 = 512;

/// Nats between two distributions that differ by the order of additions only, at most; measured 0.01 and less.
const DIVERGENCE_MAX: f64 = 0.05;

type Chunk = (u32, u32, Vec<u8>);

fn ranges(from: u32, to: u32, most: u32) -> impl Iterator<Item = (u32, u32)> {
    (from..to).step_by(most as usize).map(move |begin| (begin, to.min(begin + most)))
}

fn export(model: &mut Llama, slot: u16, from: u32, to: u32, most: u32) -> Vec<Chunk> {
    ranges(from, to, most).map(|(from, to)| (from, to, model.export(slot, from, to).unwrap())).collect()
}

fn import(model: &mut Llama, slot: u16, chunks: &[Chunk]) {
    for (from, to, bytes) in chunks {
        model.import(slot, *from, *to, bytes).unwrap();
        assert_eq!(model.held(slot), *to);
    }
}

/// A source that was exported at `tokens` positions while it decoded on, and what it said afterwards.
struct Moved {
    /// Chunks of [0, tokens), one after each step of the source.
    early: Vec<Chunk>,
    /// What came meanwhile.
    delta: Vec<Chunk>,
    /// All of it, when the source had stopped.
    whole: Vec<Chunk>,
    /// The id to go on with.
    next: TokenId,
    said: Said,
}

fn move_from(source: &mut Llama, ids: &[TokenId], tokens: u32) -> Moved {
    prefill(source, PROMPT, &ids[source.held(PROMPT) as usize..tokens as usize]);
    let fork = export(source, PROMPT, 0, tokens, CHUNK);
    import(source, RUNNING, &fork);
    let mut next = ids[tokens as usize];
    let mut early = Vec::new();
    for (from, to) in ranges(0, tokens, CHUNK) {
        early.extend(export(source, RUNNING, from, to, CHUNK));
        next = likeliest(&step(source, RUNNING, next));
    }
    let end = source.held(RUNNING);
    let delta = export(source, RUNNING, tokens, end, CHUNK);
    let whole = export(source, RUNNING, 0, end, 300);
    let said = go_on(source, RUNNING, next, COMPARED);
    source.forget(RUNNING);
    Moved { early, delta, whole, next, said }
}

/// How the destination came by the context.
#[derive(Debug, Clone, Copy)]
enum By {
    PreCopy,
    Whole,
    /// Its own prefill of so many positions, the rest pulled.
    Hybrid(u32),
}

fn arrive(destination: &mut Llama, ids: &[TokenId], moved: &Moved, by: By) -> Said {
    match by {
        By::Whole => import(destination, RUNNING, &moved.whole),
        By::PreCopy => {
            import(destination, RUNNING, &moved.early);
            import(destination, RUNNING, &moved.delta);
        }
        By::Hybrid(own) => {
            prefill(destination, RUNNING, &ids[..own as usize]);
            let rest: Vec<Chunk> = moved.early.iter().filter(|(from, ..)| *from >= own).cloned().collect();
            import(destination, RUNNING, &rest);
            import(destination, RUNNING, &moved.delta);
        }
    }
    assert_eq!(destination.resumable(RUNNING), destination.held(RUNNING), "{by:?}");
    let said = go_on(destination, RUNNING, moved.next, COMPARED);
    destination.forget(RUNNING);
    said
}

fn certify(weights: Weights, lengths: &[u32], kv_type: KvType) {
    let longest = *lengths.last().unwrap();
    let limits = Limits { kv_type, ..limits(2, (2 * longest + 512).next_multiple_of(256)) };
    let (Some(mut source), Some(mut destination)) = (weights.load(limits), weights.load(limits)) else { return };
    assert_eq!(source.layout(), destination.layout());
    assert!(source.layout().is_some(), "{weights:?} is certified");
    let ids = counting(&source, longest as usize);
    for tokens in lengths {
        let moved = move_from(&mut source, &ids, *tokens);
        let own = OWN_MAX.min(*tokens / CHUNK * CHUNK);
        for by in [By::PreCopy, By::Whole, By::Hybrid(own)] {
            let said = arrive(&mut destination, &ids, &moved, by);
            let (divergence, margin) = (moved.said.divergence(&said), moved.said.least_margin());
            let case =
                format!("{weights:?} {kv_type:?} {tokens} {by:?}: divergence {divergence:.6}, least margin {margin}");
            println!("{case}");
            assert_eq!(said.ids, moved.said.ids, "{case}");
            assert!(divergence < DIVERGENCE_MAX, "{case}");
            // Cells in the same order give the same bits; a window that went round is in another order.
            let must_be_exact = weights == Weights::SmolLm2 && !matches!(by, By::Hybrid(_));
            assert!(!must_be_exact || said == moved.said, "{case}");
        }
    }
}

/// The measure used above tells a context with one damaged chunk from a whole one.
fn notices_damage(weights: Weights) {
    let limits = limits(2, 2048);
    let (Some(mut source), Some(mut destination)) = (weights.load(limits), weights.load(limits)) else { return };
    let ids = counting(&source, 600);
    let mut moved = move_from(&mut source, &ids, 600);
    let (_, _, bytes) = &mut moved.early[2];
    let fields = fields(source.format().unwrap(), [CHUNK as usize; 2]);
    let negative: Vec<(usize, usize)> = fields.windows(2).map(|pair| (pair[0].0 + pair[0].1, pair[1].0)).collect();
    for (from, to) in negative {
        // The other sign for every value of an f16 layer.
        bytes[from..to].iter_mut().skip(1).step_by(2).for_each(|byte| *byte ^= 0x80);
    }
    let said = arrive(&mut destination, &ids, &moved, By::PreCopy);
    let divergence = moved.said.divergence(&said);
    assert!(divergence > 10.0 * DIVERGENCE_MAX, "{weights:?}: {divergence}");
}

#[test]
fn contexts_of_llama_move_without_a_trace() {
    certify(Weights::SmolLm2, &[256, 1000, 4000], KvType::F16);
}

#[test]
fn contexts_of_gemma_move_without_a_trace() {
    certify(Weights::Gemma3, &[256, 1000, 4000], KvType::F16);
}

#[test]
fn contexts_of_gemma_move_at_every_place_around_its_window() {
    certify(Weights::Gemma3, &[500, 511, 512, 513, 530, 1024, 1100], KvType::F16);
}

#[test]
fn contexts_of_eight_bits_move_without_a_trace_and_only_to_their_like() {
    certify(Weights::SmolLm2, &[256, 1000], KvType::Q8);
    certify(Weights::Gemma3, &[256, 530], KvType::Q8);
    for weights in [Weights::SmolLm2, Weights::Gemma3] {
        let layout = |kv_type| weights.load(Limits { kv_type, ..limits(1, 512) }).map(|model| model.layout());
        let (Some(f16), Some(q8)) = (layout(KvType::F16), layout(KvType::Q8)) else { return };
        assert_ne!(f16, q8, "{weights:?}");
    }
}

#[test]
fn the_comparison_notices_one_damaged_chunk() {
    notices_damage(Weights::SmolLm2);
    notices_damage(Weights::Gemma3);
}
