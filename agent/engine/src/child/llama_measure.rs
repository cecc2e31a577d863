//! Figures, not checks: run by hand on a quiet machine with
//! `cargo test --release -p idlewild-engine --lib -- --ignored --nocapture figures`.

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use idlewild_protocol::TokenId;

use super::kv::Kind;
use super::kv::finite::is_finite;
use super::llama::Llama;
use super::llama_support::{Weights, counting, limits, prefill, step};
use super::model::{Entry, Model};

const TOKENS: u32 = 1024;

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Whether what a trial touches was touched a moment ago: a context that really moves was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caches {
    Warm,
    Cold,
}

/// Bytes that are written between trials so that the processor's caches hold nothing else.
const EVICTING_BYTES: usize = 512 << 20;

/// The median of some trials, in milliseconds, each after its preparation.
fn median(caches: Caches, mut trial: impl FnMut() -> f64) -> f64 {
    let mut other = vec![0_u8; if caches == Caches::Cold { EVICTING_BYTES } else { 0 }];
    let mut times: Vec<f64> = (1..=9)
        .map(|n| {
            other.fill(n);
            black_box(&other);
            trial()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// How the time of a token rises with its context.
fn contexts(weights: Weights) {
    const LONGEST: u32 = 4096 - 64;
    const PIECE: u32 = 64;
    let Some(mut model) = weights.load(limits(1, 4096)) else { return };
    let ids = counting(&model, LONGEST as usize);
    println!("{weights:?}: context, ms of a decode step, ms of a prompt token in pieces of {PIECE}");
    for from in (0..LONGEST).step_by(PIECE as usize) {
        let piece = &ids[from as usize..(from + PIECE) as usize];
        let batch: Vec<Entry> = piece
            .iter()
            .zip(from..)
            .map(|(id, position)| Entry { slot: 0, position, id: *id, wants_logits: position + 1 == from + PIECE })
            .collect();
        let began = Instant::now();
        model.evaluate(&batch).unwrap();
        let token_ms = ms(began) / f64::from(PIECE);
        if from % 512 == 0 {
            let decode_ms = median(Caches::Warm, || {
                let began = Instant::now();
                step(&mut model, 0, ids[0]);
                let took = ms(began);
                model.truncate(0, from + PIECE);
                took
            });
            println!("  {from:5} {decode_ms:7.1} {token_ms:7.2}");
        }
    }
}

fn measure(weights: Weights) {
    let Some(mut model) = weights.load(limits(2, 4096)) else { return };
    let ids = counting(&model, TOKENS as usize);
    prefill(&mut model, 0, &ids[..TOKENS as usize]);
    for caches in [Caches::Warm, Caches::Cold] {
        let decode_ms = median(caches, || timed_step(&mut model, ids[0]));
        println!("{weights:?}, {caches:?}: a decode step at {TOKENS} tokens takes {decode_ms:.1} ms");
        for tokens in [64, 128, 256] {
            measure_chunk(&mut model, &ids, tokens, caches);
        }
    }
    interrupt(&mut model, &ids);
}

/// A step at the same length each time.
fn timed_step(model: &mut Llama, id: TokenId) -> f64 {
    let began = Instant::now();
    step(model, 0, id);
    let took = ms(began);
    model.truncate(0, TOKENS);
    took
}

fn measure_chunk(model: &mut Llama, ids: &[TokenId], tokens: u32, caches: Caches) {
    let bytes = model.export(0, 0, tokens).unwrap();
    let export_ms = median(caches, || {
        let began = Instant::now();
        let again = model.export(0, 0, tokens).unwrap();
        let took = ms(began);
        assert!(again == bytes, "an export of the same positions is the same");
        took
    });
    let after_ms = median(caches, || {
        black_box(model.export(0, 0, tokens).unwrap());
        timed_step(model, ids[0])
    });
    let import_ms = median(caches, || {
        model.forget(1);
        let began = Instant::now();
        model.import(1, 0, tokens, &bytes).unwrap();
        ms(began)
    });
    assert!(model.export(1, 0, tokens).unwrap() == bytes, "what was imported is what was exported");
    let scan_ms = median(caches, || {
        let began = Instant::now();
        black_box(is_finite(Kind::F16, &bytes));
        ms(began)
    });
    let hash_ms = median(caches, || {
        let began = Instant::now();
        black_box(blake3::hash(&bytes));
        ms(began)
    });
    let rate = |took_ms: f64| bytes.len() as f64 / 1e6 / took_ms;
    println!(
        "  {tokens} tokens, {} bytes a token: export {export_ms:.2} ms ({:.1} GB/s), import {import_ms:.2} ms ({:.1} GB/s), of \
         it the scan {scan_ms:.2} ms ({:.1} GB/s); hash {hash_ms:.2} ms; the step after an export {after_ms:.1} ms",
        bytes.len() / tokens as usize,
        rate(export_ms),
        rate(import_ms),
        rate(scan_ms),
    );
}

/// How long an evaluation of a whole batch goes on after the flag is set.
fn interrupt(model: &mut impl Model, ids: &[TokenId]) {
    let flag = model.interrupter().unwrap();
    model.forget(1);
    let batch: Vec<Entry> =
        (0..256).map(|n| Entry { slot: 1, position: n, id: ids[n as usize], wants_logits: n == 255 }).collect();
    let mut worst_ms = 0.0_f64;
    for after_ms in [20, 50, 100, 150, 200] {
        let to_set = flag.clone();
        let setter = thread::spawn(move || {
            thread::park_timeout(Duration::from_millis(after_ms));
            to_set.store(true, Ordering::Relaxed);
            Instant::now()
        });
        let is_interrupted = model.evaluate(&batch).is_err();
        let ended = Instant::now();
        let set = setter.join().unwrap();
        if is_interrupted {
            worst_ms = worst_ms.max(ended.saturating_duration_since(set).as_secs_f64() * 1e3);
        }
        flag.store(false, Ordering::Relaxed);
        model.forget(1);
    }
    println!("  a step of 256 tokens ends {worst_ms:.1} ms after the flag is set, at worst");
}

#[test]
#[ignore = "measures; nothing is checked"]
fn figures() {
    contexts(Weights::SmolLm2);
    contexts(Weights::Gemma3);
    measure(Weights::SmolLm2);
    measure(Weights::Gemma3);
    let rows = vec![0x3c_u8; 64 << 20];
    for kind in [Kind::F16, Kind::F32, Kind::Q8] {
        let rows = &rows[..rows.len() / 34 / 4 * 34 * 4];
        let took_ms = median(Caches::Cold, || {
            let began = Instant::now();
            black_box(is_finite(kind, rows));
            ms(began)
        });
        println!("finiteness of {kind:?}: {:.1} GB/s", rows.len() as f64 / 1e6 / took_ms);
    }
}

/// What a round of prefill takes by its tokens, beside what the rates say of it (O_k = 1/d - 1/p, policy.md).
fn rounds(weights: Weights, held: u32) {
    const LONGEST: u32 = 64;
    let Some(mut model) = weights.load(limits(2, 4096 + LONGEST)) else { return };
    let ids = counting(&model, (held + LONGEST) as usize);
    prefill(&mut model, 0, &ids[..held as usize]);
    let mut round_ms = |tokens: u32| {
        median(Caches::Warm, || {
            let batch: Vec<Entry> = (held..held + tokens)
                .map(|position| Entry { slot: 0, position, id: ids[position as usize], wants_logits: false })
                .collect();
            let began = Instant::now();
            model.evaluate(&batch).unwrap();
            let took = ms(began);
            model.truncate(0, held);
            took
        })
    };
    let (one_ms, piece_ms) = (round_ms(1), round_ms(LONGEST) / f64::from(LONGEST));
    let overhead_ms = one_ms - piece_ms;
    println!(
        "{weights:?} after {held}: a token alone {one_ms:.1} ms, of a piece {piece_ms:.2} ms: O_k {overhead_ms:.1} ms"
    );
    for tokens in [2, 3, 4, 8, 16, 32] {
        let expected_ms = overhead_ms + f64::from(tokens) * piece_ms;
        println!("  {tokens:2} tokens: {:.1} ms, expected {expected_ms:.1}", round_ms(tokens));
    }
    for tokens in [1, 2, 16] {
        let export_ms = median(Caches::Warm, || {
            let began = Instant::now();
            black_box(model.export(0, held - tokens, held).unwrap());
            ms(began)
        });
        println!("  the last {tokens:2} are exported in {export_ms:.1} ms");
    }
}

#[test]
#[ignore = "measures; nothing is checked"]
fn figures_of_rounds() {
    for held in [512, 4000] {
        rounds(Weights::SmolLm2, held);
        rounds(Weights::Gemma3, held);
    }
}
