//! What must hold of estimates of length, by examples and for any history.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

type History = LengthHistory<u32, &'static str>;

fn ended(prompt_tokens: u32, output_tokens: u32) -> Answer {
    Answer { prompt_tokens, output_tokens, ended: true }
}

/// `count` answers of one client, of lengths around `tokens`.
fn tell(history: &mut History, client: u32, tokens: u32, count: u32) {
    for k in 0..count {
        history.observe(&client, &"model", ended(100, tokens + tokens * (k % 5) / 10));
    }
}

fn median(history: &History, client: u32) -> f64 {
    history.estimate(&client, &"model", 100).residual(0, None).quantiles_tokens[2]
}

#[test]
fn a_client_with_history_has_an_estimate_of_its_own_and_others_have_the_fleets() {
    let mut history = History::default();
    (0..20).for_each(|client| tell(&mut history, client, 100, 10));
    tell(&mut history, 77, 2000, 30);
    assert!((1500.0..3500.0).contains(&median(&history, 77)), "{}", median(&history, 77));
    assert!((80.0..160.0).contains(&median(&history, 3)), "{}", median(&history, 3));
    let newcomer = median(&history, 1000);
    assert!((80.0..600.0).contains(&newcomer), "{newcomer}");
}

#[test]
fn where_groups_differ_a_few_answers_are_believed_and_where_they_do_not_many_are_wanted() {
    let after_two = |length_of: fn(u32, u32) -> u32| {
        let mut history = History::default();
        for (client, k) in (0..30).flat_map(|client| (0..20).map(move |k| (client, k))) {
            history.observe(&client, &"model", ended(100, length_of(client, k)));
        }
        tell(&mut history, 77, 3000, 2);
        median(&history, 77)
    };
    let (differ, alike) = (after_two(|client, _| 20 << (client % 8)), after_two(|_, k| 20 << (k % 8)));
    assert!(differ > 2000.0 && alike < 1000.0, "{differ} {alike}");
}

#[test]
fn the_more_has_come_of_a_heavy_tailed_answer_the_more_is_to_come() {
    let history = History::default();
    let estimate = history.estimate(&0, &"model", 100);
    let residuals: Vec<f64> =
        [10, 100, 1000, 10_000, 100_000, 10_000_000].map(|done| estimate.residual(done, None).mean_tokens()).to_vec();
    assert!(residuals.windows(2).skip(1).all(|pair| pair[1] > pair[0]), "{residuals:?}");
}

#[test]
fn max_tokens_truncates_and_what_is_past_it_is_over() {
    let estimate = History::default().estimate(&0, &"model", 100);
    let residual = estimate.residual(90, Some(100));
    assert!(residual.quantiles_tokens.iter().all(|&tokens| tokens <= 10.0) && residual.quantiles_tokens[4] == 10.0);
    assert_eq!(estimate.residual(100, Some(100)).quantiles_tokens, [0.0; 5]);
    assert_eq!(estimate.residual(200, Some(100)).quantiles_tokens, [0.0; 5]);
}

#[test]
fn an_answer_that_was_cut_off_counts_as_longer_than_it_was() {
    let (mut cut, mut whole) = (History::default(), History::default());
    for _ in 0..100 {
        cut.observe(&1, &"model", Answer { ended: false, ..ended(100, 256) });
        whole.observe(&1, &"model", ended(100, 256));
    }
    assert!(median(&whole, 1) < 370.0 && median(&cut, 1) > 370.0, "{} {}", median(&whole, 1), median(&cut, 1));
}

#[test]
fn what_was_long_ago_fades() {
    let mut history = History::default();
    tell(&mut history, 1, 4000, 500);
    tell(&mut history, 1, 50, 1000);
    assert!(median(&history, 1) < 120.0, "{}", median(&history, 1));
}

#[test]
fn prompts_of_other_lengths_are_other_groups() {
    let mut history = History::default();
    for _ in 0..50 {
        history.observe(&1, &"model", ended(20, 1000));
        history.observe(&1, &"model", ended(5000, 30));
    }
    let median = |prompt| history.estimate(&1, &"model", prompt).residual(0, None).quantiles_tokens[2];
    assert!(median(20) > 600.0 && median(5000) < 60.0, "{} {}", median(20), median(5000));
}

#[test]
fn memory_is_bounded_and_the_latest_are_kept() {
    let mut history = History::default();
    let last = 3 * MOST_GROUPS as u32;
    for client in 0..=last {
        history.observe(&client, &"model", ended(100, if client == last { 5000 } else { 50 }));
    }
    assert!(history.groups() <= MOST_GROUPS + 1, "{}", history.groups());
    let far = |client| history.estimate(&client, &"model", 100).longer_than(2000.0);
    assert!(far(last) > 2.0 * far(0), "{} {}", far(last), far(0));
}

#[test]
fn what_is_stored_and_read_back_answers_the_same() {
    let mut history = LengthHistory::<u32, String>::default();
    for k in 0..300_u32 {
        let answer = Answer { ended: k % 7 > 0, ..ended(k * 13 % 9000, k * 31 % 700) };
        history.observe(&(k % 9), &format!("model {}", k % 3), answer);
    }
    let text = serde_json::to_string(&history).unwrap();
    let read: LengthHistory<u32, String> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, history);
    assert_eq!(read.estimate(&4, &"model 1".to_owned(), 99), history.estimate(&4, &"model 1".to_owned(), 99));
}

fn answers() -> impl Strategy<Value = Vec<(u32, Answer)>> {
    let answer = (0..5_u32, any::<u16>(), any::<u32>(), any::<bool>());
    let made = answer.prop_map(|(client, prompt, output, ended)| {
        // Lengths of all sizes, the largest and 0 among them.
        let output_tokens = output >> (output % 32);
        (client, Answer { prompt_tokens: prompt.into(), output_tokens, ended })
    });
    vec(made, 0..60)
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn what_is_to_come_is_ordered_finite_and_within_the_limit(
        answers in answers(), done in any::<u32>(), shift in 0..32_u32, max in proptest::option::of(any::<u32>()),
    ) {
        let mut history = History::default();
        for (client, answer) in &answers {
            history.observe(client, &"model", *answer);
        }
        let done = done >> shift;
        let residual = history.estimate(&1, &"model", 100).residual(done, max);
        prop_assert!(residual.quantiles_tokens.is_sorted(), "{residual:?}");
        let room = max.map_or(f64::MAX, |max| f64::from(max.saturating_sub(done)));
        prop_assert!(residual.quantiles_tokens.iter().all(|&t| (0.0..=room).contains(&t)), "{residual:?}");
    }

    #[test]
    fn the_chance_of_a_longer_answer_never_rises_and_quantiles_invert_it(
        answers in answers(), lengths in vec(0.0..1e6_f64, 12), done in 0..3000_u32,
    ) {
        let mut history = History::default();
        for (client, answer) in &answers {
            history.observe(client, &"model", *answer);
        }
        let estimate = history.estimate(&1, &"model", 100);
        let mut lengths = lengths;
        lengths.sort_by(f64::total_cmp);
        let chances: Vec<f64> = lengths.iter().map(|&tokens| estimate.longer_than(tokens)).collect();
        prop_assert!(chances.iter().all(|chance| (-1e-9..=1.0 + 1e-9).contains(chance)), "{chances:?}");
        prop_assert!(chances.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9), "{chances:?}");
        let left = estimate.longer_than(f64::from(done));
        prop_assume!(left > 1e-6);
        for (q, more) in QUANTILES.into_iter().zip(estimate.residual(done, None).quantiles_tokens) {
            let beyond = estimate.longer_than(f64::from(done) + more) / left;
            // Below one token all lengths are one.
            prop_assert!((beyond - (1.0 - q)).abs() < 1e-6 || f64::from(done) + more <= 1.0, "{q}: {beyond}");
        }
    }
}
