//! Bytes from a peer that lies, and evaluations that are broken off: the slots stay as they were, and no cell is lost.

use std::sync::atomic::Ordering;

use idlewild_protocol::TokenId;

use super::kv::fields::fields;
use super::llama::Llama;
use super::llama_support::{Weights, counting, go_on, limits, prefill};
use super::model::{Entry, KvError, Model};

/// Damaged chunks of each model.
const TRIALS: u32 = 5_000;

/// Cells of the cache.
const CELLS: u32 = 512;

const CHUNK: u32 = 16;

/// The slot whose context is attacked, and one beside it.
const TARGET: u16 = 0;
const NEIGHBOUR: u16 = 1;

/// Bit patterns of f16 that are no numbers.
const NO_NUMBERS: [[u8; 2]; 4] = [[0, 0x7c], [0, 0xfc], [1, 0x7c], [0xff, 0xff]];

/// Figures that parsers stumble over.
const FIGURES: [u32; 8] = [0, 1, 2, 17, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

/// A fixed walk (an xorshift).
struct Walk(u64);

impl Walk {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// What a liar works with.
struct Material {
    /// The chunk that is expected.
    good: Vec<u8>,
    /// The one after it.
    other: Vec<u8>,
    /// Fields of the good one.
    fields: Vec<(usize, usize)>,
}

impl Material {
    fn value(&self, walk: &mut Walk) -> usize {
        loop {
            let at = walk.below(self.good.len() - 1);
            let is_value = |at| !self.fields.iter().any(|(from, length)| (*from..from + length).contains(&at));
            // Rows begin at even offsets, since every field is a multiple of 4 bytes and every row of 2.
            let at = at & !1;
            if is_value(at) && is_value(at + 1) {
                return at;
            }
        }
    }

    /// Damaged bytes, and whether they may be taken for a chunk: where only values changed, to other numbers.
    fn damaged(&self, walk: &mut Walk) -> (Vec<u8>, bool) {
        let mut bytes = self.good.clone();
        match walk.below(9) {
            0 | 1 => {
                let (at, length) = walk.of(&self.fields);
                bytes[at + walk.below(length)] ^= 1 << walk.below(8);
            }
            2 => {
                let (at, _) = walk.of(&self.fields);
                let figure = walk.of(&FIGURES).to_le_bytes();
                if bytes[at..at + 4] == figure {
                    bytes.push(0);
                }
                bytes[at..at + 4].copy_from_slice(&figure);
            }
            3 => {
                let at = self.value(walk);
                bytes[at..at + 2].copy_from_slice(&walk.of(&NO_NUMBERS));
            }
            4 => bytes.truncate(walk.below(bytes.len())),
            5 => bytes.extend_from_slice(&self.other[..=walk.below(64)]),
            6 => bytes.clone_from(&self.other),
            7 => {
                // Four bytes more before a field and as many fewer at the end.
                let (at, _) = walk.of(&self.fields);
                let end = bytes.len() - 4;
                bytes.copy_within(at..end, at + 4);
                bytes[at..at + 4].copy_from_slice(&[0x3b; 4]);
            }
            _ => {
                let at = self.value(walk);
                // The high byte of a number stays one while its exponent is not all ones.
                bytes[at + 1] = 0x3b;
                return (bytes, true);
            }
        }
        (bytes, false)
    }
}

fn material(model: &mut Llama, ids: &[TokenId]) -> Material {
    prefill(model, TARGET, &ids[..3 * CHUNK as usize]);
    let good = model.export(TARGET, CHUNK, 2 * CHUNK).unwrap();
    let other = model.export(TARGET, 2 * CHUNK, 3 * CHUNK).unwrap();
    let fields = fields(model.format().unwrap(), [CHUNK as usize; 2]);
    model.truncate(TARGET, CHUNK);
    Material { good, other, fields }
}

/// How many more positions the cache has room for.
fn room(model: &mut Llama, slot: u16, id: TokenId) -> u32 {
    let before = model.held(slot);
    loop {
        let entry = Entry { slot, position: model.held(slot), id, wants_logits: false };
        if model.evaluate(&[entry]).is_err() {
            break;
        }
    }
    let room = model.held(slot) - before;
    model.truncate(slot, before);
    room
}

fn attack(weights: Weights) {
    let Some(mut model) = weights.load(limits(2, CELLS)) else { return };
    let ids = counting(&model, 200);
    let material = material(&mut model, &ids);
    prefill(&mut model, NEIGHBOUR, &ids[..50]);
    let expected = go_on(&mut model, TARGET, ids[CHUNK as usize], 16);
    model.truncate(TARGET, CHUNK);
    let neighbour = go_on(&mut model, NEIGHBOUR, ids[50], 16);
    model.truncate(NEIGHBOUR, 50);
    let cells = room(&mut model, TARGET, ids[0]);
    assert_eq!(cells, CELLS - 50 - CHUNK);

    let mut walk = Walk(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut taken) = (0, 0);
    for trial in 0..TRIALS {
        let (bytes, may_be_taken) = material.damaged(&mut walk);
        // What is damaged on its way, the hash tells before it comes here; this is what a peer seals that damages it.
        match model.import(TARGET, CHUNK, 2 * CHUNK, &bytes) {
            Ok(()) => {
                assert!(may_be_taken, "trial {trial}");
                assert_eq!(model.held(TARGET), 2 * CHUNK);
                model.truncate(TARGET, CHUNK);
                taken += 1;
            }
            Err(KvError::Malformed(_)) => {
                assert!(!may_be_taken, "trial {trial}");
                refused += 1;
            }
            Err(other) => panic!("trial {trial}: it came as far as llama.cpp: {other}"),
        }
        assert_eq!(model.held(TARGET), CHUNK, "trial {trial}");
    }
    assert!(refused > TRIALS / 2 && taken > TRIALS / 20, "{refused} refused, {taken} taken");
    assert_eq!(room(&mut model, TARGET, ids[0]), cells, "cells were lost");
    assert_eq!(go_on(&mut model, TARGET, ids[CHUNK as usize], 16).ids, expected.ids);
    assert_eq!(go_on(&mut model, NEIGHBOUR, ids[50], 16).ids, neighbour.ids);
    model.truncate(TARGET, CHUNK);
    assert_eq!(model.import(TARGET, CHUNK, 2 * CHUNK, &material.good), Ok(()), "the undamaged one is still taken");
}

#[test]
fn damaged_chunks_of_llama_are_refused_and_leave_nothing_behind() {
    attack(Weights::SmolLm2);
}

#[test]
fn damaged_chunks_of_gemma_are_refused_and_leave_nothing_behind() {
    attack(Weights::Gemma3);
}

#[test]
fn a_chunk_of_another_family_is_refused() {
    let (Some(mut llama), Some(mut gemma)) =
        (Weights::SmolLm2.load(limits(1, 256)), Weights::Gemma3.load(limits(1, 256)))
    else {
        return;
    };
    assert_ne!(llama.layout(), gemma.layout());
    let ids = counting(&llama, 40);
    for model in [&mut llama, &mut gemma] {
        prefill(model, TARGET, &ids);
    }
    let (of_llama, of_gemma) = (llama.export(TARGET, 0, 40).unwrap(), gemma.export(TARGET, 0, 40).unwrap());
    for (model, bytes) in [(&mut llama, of_gemma), (&mut gemma, of_llama)] {
        model.forget(TARGET);
        assert!(matches!(model.import(TARGET, 0, 40, &bytes), Err(KvError::Malformed(_))));
        assert_eq!(model.held(TARGET), 0);
    }
}

fn wrong_ranges(weights: Weights) {
    let Some(mut model) = weights.load(limits(2, CELLS)) else { return };
    let ids = counting(&model, 64);
    prefill(&mut model, TARGET, &ids[..64]);
    for (slot, from, to) in
        [(TARGET, 0, 65), (TARGET, 64, 65), (TARGET, 9, 9), (TARGET, 9, 8), (NEIGHBOUR, 0, 1), (9, 0, 1)]
    {
        assert_eq!(model.export(slot, from, to), Err(KvError::OtherPositions), "{slot}: {from} to {to}");
    }
    let bytes = model.export(TARGET, 16, 32).unwrap();
    for (slot, from, to) in [(TARGET, 16, 32), (NEIGHBOUR, 16, 32), (TARGET, 64, 64), (9, 0, 16)] {
        assert_eq!(model.import(slot, from, to, &bytes), Err(KvError::OtherPositions), "{slot}: {from} to {to}");
    }
    assert!(matches!(model.import(TARGET, 64, 80, &bytes), Err(KvError::Malformed(_))), "moved to other positions");
    assert_eq!((model.held(TARGET), model.held(NEIGHBOUR)), (64, 0));
}

#[test]
fn ranges_that_are_not_there_are_refused() {
    wrong_ranges(Weights::SmolLm2);
    wrong_ranges(Weights::Gemma3);
}

fn fill(weights: Weights) {
    let Some(mut model) = weights.load(limits(2, CELLS)) else { return };
    let ids = counting(&model, 520);
    prefill(&mut model, TARGET, &ids[..300]);
    let chunk = model.export(TARGET, 0, 256).unwrap();
    for _ in 0..3 {
        assert!(matches!(model.import(NEIGHBOUR, 0, 256, &chunk), Err(KvError::Refused(_))), "212 cells are free");
        assert_eq!(model.held(NEIGHBOUR), 0);
    }
    assert_eq!(room(&mut model, TARGET, ids[300]), 212);
    assert_eq!(room(&mut model, NEIGHBOUR, ids[0]), 212);
    let small = model.export(TARGET, 0, 200).unwrap();
    assert_eq!(model.import(NEIGHBOUR, 0, 200, &small), Ok(()));
    assert_eq!(room(&mut model, TARGET, ids[300]), 12);
}

#[test]
fn a_chunk_without_room_is_refused_and_costs_no_cell() {
    fill(Weights::SmolLm2);
    fill(Weights::Gemma3);
}

/// `tokens` are beyond the window of the one that has one.
fn interrupt(weights: Weights, tokens: usize) {
    let Some(mut model) = weights.load(limits(2, 2048)) else { return };
    let ids = counting(&model, tokens + 256);
    prefill(&mut model, TARGET, &ids[..tokens]);
    prefill(&mut model, NEIGHBOUR, &ids[..tokens]);
    let flag = model.interrupter().unwrap();
    let mut batch: Vec<Entry> = Vec::new();
    for at in 0..200 {
        let (position, id) = ((tokens + at) as u32, ids[tokens + at]);
        batch.push(Entry { slot: TARGET, position, id, wants_logits: at == 199 });
    }
    batch.push(Entry { slot: NEIGHBOUR, position: tokens as u32, id: ids[tokens], wants_logits: true });
    for _ in 0..5 {
        flag.store(true, Ordering::Relaxed);
        assert!(model.evaluate(&batch).unwrap_err().contains("interrupted"));
        assert_eq!((model.held(TARGET), model.held(NEIGHBOUR)), (tokens as u32, tokens as u32));
    }
    flag.store(false, Ordering::Relaxed);
    let undisturbed = {
        let mut other = weights.load(limits(2, 2048)).unwrap();
        prefill(&mut other, TARGET, &ids[..tokens]);
        go_on(&mut other, TARGET, ids[tokens], 16)
    };
    for slot in [TARGET, NEIGHBOUR] {
        assert_eq!(go_on(&mut model, slot, ids[tokens], 16).ids, undisturbed.ids, "slot {slot}");
    }
}

#[test]
fn an_interrupted_step_leaves_the_slots_as_they_were() {
    interrupt(Weights::SmolLm2, 300);
    interrupt(Weights::Gemma3, 800);
}

#[test]
fn a_context_without_its_window_is_not_evaluated() {
    let (Some(mut source), Some(mut model)) =
        (Weights::Gemma3.load(limits(1, 2048)), Weights::Gemma3.load(limits(1, 2048)))
    else {
        return;
    };
    let ids = counting(&source, 1500);
    prefill(&mut source, TARGET, &ids[..1500]);
    prefill(&mut model, TARGET, &ids[..64]);
    for from in [64, 128] {
        let chunk = source.export(TARGET, from, from + 64).unwrap();
        model.import(TARGET, from, from + 64, &chunk).unwrap();
    }
    assert_eq!((model.held(TARGET), model.resumable(TARGET)), (192, 64), "the source has dropped their window");
    let next = Entry { slot: TARGET, position: 192, id: ids[192], wants_logits: true };
    assert!(model.evaluate(&[next]).unwrap_err().contains("window"));
    assert_eq!(model.held(TARGET), 192);
    model.truncate(TARGET, 64);
    assert_eq!((model.held(TARGET), model.resumable(TARGET)), (64, 64));
    prefill(&mut model, TARGET, &ids[64..1500]);
    let (undisturbed, resumed) = (go_on(&mut source, TARGET, ids[1500], 16), go_on(&mut model, TARGET, ids[1500], 16));
    assert_eq!(resumed.ids, undisturbed.ids);
}
