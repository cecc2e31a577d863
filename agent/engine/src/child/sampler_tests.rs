//! The sampler against brute force and against the distributions that it claims.

use proptest::prelude::*;

use super::*;

fn sampling(temperature: f32) -> Sampling {
    Sampling { temperature, ..Sampling::default() }
}

fn drawn(logits: &[f32], sampling: &Sampling, n: u32) -> u32 {
    draw(logits, &[], sampling, n, &mut Scratch::default()).unwrap().0
}

/// The sorted ids that the filters keep, with their probabilities, by the textbook.
fn filtered(logits: &[f32], s: &Sampling) -> Vec<(u32, f64)> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut all: Vec<(u32, f64)> =
        (0..).zip(logits).map(|(id, l)| (id, f64::from((l - largest) / s.temperature).exp())).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if s.top_k > 0 {
        all.truncate(s.top_k as usize);
    }
    let total: f64 = all.iter().map(|(_, w)| w).sum();
    let mut sum = 0.0;
    let nucleus = all.iter().position(|(_, w)| {
        sum += w;
        sum >= f64::from(s.top_p) * total
    });
    all.truncate(nucleus.map_or(all.len(), |at| at + 1));
    all.retain(|(_, w)| *w >= f64::from(s.min_p));
    let total: f64 = all.iter().map(|(_, w)| w).sum();
    all.iter().map(|(id, w)| (*id, w / total)).collect()
}

#[test]
fn temperature_zero_takes_the_first_of_the_largest() {
    assert_eq!(drawn(&[1.0, 3.0, 3.0, 2.0], &sampling(0.0), 0), 1);
    assert_eq!(drawn(&[f32::NAN, -5.0, f32::NEG_INFINITY], &sampling(0.0), 7), 1);
}

#[test]
fn no_finite_logit_is_no_token() {
    for temperature in [0.0, 1.0] {
        for logits in [&[f32::NAN, f32::NAN][..], &[f32::NEG_INFINITY], &[f32::INFINITY, 0.0], &[]] {
            assert_eq!(draw(logits, &[], &sampling(temperature), 0, &mut Scratch::default()), None, "{logits:?}");
        }
    }
}

#[test]
fn a_token_that_is_not_a_number_is_never_drawn() {
    let drawn: Vec<u32> = (0..200).map(|n| drawn(&[f32::NAN, 0.0, 0.0], &sampling(5.0), n)).collect();
    assert!(drawn.iter().all(|id| *id > 0));
}

#[test]
fn the_draw_depends_on_seed_and_position_only() {
    let logits: Vec<f32> = (0..500_u16).map(|i| f32::from(i % 7)).collect();
    let of = |seed, n| drawn(&logits, &Sampling { seed, ..sampling(1.0) }, n);
    assert!((0..50).all(|n| of(1, n) == of(1, n)));
    assert!((0..50).any(|n| of(1, n) != of(2, n)));
    assert!((0..50).any(|n| of(1, n) != of(1, n + 1)));
}

#[test]
fn draws_follow_the_filtered_softmax() {
    let logits: Vec<f32> = [2.0, 1.0, 0.5, 0.0, -1.0, -3.0].into();
    let cases = [
        sampling(1.0),
        sampling(0.5),
        Sampling { top_k: 3, ..sampling(1.5) },
        Sampling { top_p: 0.8, ..sampling(1.0) },
        Sampling { min_p: 0.2, ..sampling(1.0) },
        Sampling { top_k: 4, top_p: 0.9, min_p: 0.1, ..sampling(0.8) },
    ];
    for s in cases {
        const DRAWS: u32 = 20_000;
        let mut counts = vec![0_u32; logits.len()];
        for n in 0..DRAWS {
            counts[drawn(&logits, &s, n) as usize] += 1;
        }
        let expected = filtered(&logits, &s);
        for (id, count) in counts.iter().enumerate() {
            let p = expected.iter().find(|(e, _)| *e == id as u32).map_or(0.0, |(_, p)| *p);
            // Five standard deviations: a fixed seed, so this passes always or never.
            let deviation = (f64::from(DRAWS) * p * (1.0 - p)).sqrt();
            let off = (f64::from(*count) - f64::from(DRAWS) * p).abs();
            assert!(off <= 5.0 * deviation, "{s:?}: token {id} was drawn {count} times, p {p}");
        }
    }
}

#[test]
fn small_noise_in_the_logits_changes_few_draws() {
    let logits: Vec<f32> = (0..1000_u16).map(|i| 4.0 * (f32::from(i) * 0.37).sin()).collect();
    let noisy: Vec<f32> = (0..).zip(&logits).map(|(i, l)| l + if i % 2 == 0 { 0.01 } else { -0.01 }).collect();
    let changed = (0..1000).filter(|n| drawn(&logits, &sampling(1.0), *n) != drawn(&noisy, &sampling(1.0), *n)).count();
    assert!(changed <= 30, "{changed} of 1000 draws changed");
}

#[test]
fn penalties_lower_recent_tokens() {
    let context = [TokenId(0), TokenId(1), TokenId(1), TokenId(9)];
    let logits = [2.0, 2.0, -1.0, 1.9];
    let cases = [
        (Sampling { repeat_penalty: 2.0, ..sampling(0.0) }, 3),
        (Sampling { presence_penalty: 0.5, ..sampling(0.0) }, 3),
        (Sampling { frequency_penalty: 0.05, ..sampling(0.0) }, 0),
        (Sampling { frequency_penalty: 0.05, penalty_last_n: 3, ..sampling(0.0) }, 0),
        (Sampling { repeat_penalty: 2.0, penalty_last_n: 0, ..sampling(0.0) }, 0),
        (Sampling { repeat_penalty: 2.0, penalty_last_n: 3, ..sampling(0.0) }, 0),
        (Sampling { frequency_penalty: -1.0, ..sampling(0.0) }, 1),
    ];
    for (s, expected) in cases {
        assert_eq!(draw(&logits, &context, &s, 0, &mut Scratch::default()), Some(TokenId(expected)), "{s:?}");
    }
}

#[test]
fn a_repeat_penalty_lowers_negative_logits_too() {
    let s = Sampling { repeat_penalty: 2.0, ..sampling(0.0) };
    assert_eq!(draw(&[-1.0, -1.5], &[TokenId(0)], &s, 0, &mut Scratch::default()), Some(TokenId(1)));
}

proptest! {
    #[test]
    fn only_what_the_filters_keep_is_drawn(
        logits in prop::collection::vec(-20.0_f32..20.0, 1..200), temperature in 0.05_f32..5.0, top_k in 0_u32..20,
        top_p in 0.01_f32..=1.0, min_p in 0.0_f32..0.5, seed: u64, n: u32
    ) {
        let s = Sampling { temperature, top_k, top_p, min_p, seed, ..Sampling::default() };
        let id = drawn(&logits, &s, n);
        // Ties and rounding at a filter's edge may go either way: compare with filters a hair wider.
        let wider = Sampling { top_p: (top_p * 1.0001 + 1e-4).min(1.0), min_p: min_p * 0.999, ..s };
        prop_assert!(filtered(&logits, &wider).iter().any(|(kept, _)| *kept == id));
    }

    #[test]
    fn the_shortcut_finds_the_largest_sum(scores in prop::collection::vec(-15.0_f32..0.0, 1..300), seed: u64, n: u32) {
        let noise = Noise::new(seed, n);
        let sum = |(id, score): (u32, &f32)| (id, f64::from(*score) + Noise::gumbel(noise.bits(id)));
        let expected = (0_u32..).zip(&scores).map(sum).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(id, _)| id);
        prop_assert_eq!(noise.choose((0..).zip(scores.iter().copied())), expected);
    }
}
