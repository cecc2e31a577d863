//! What must hold of every estimator, whatever it was told and in whichever order.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use idlewild_coordinator::hazard::{
    DigestCurve, Ending, Estimator, Frailty, KaplanMeiers, Prediction, Segment, Sign, Signs, Surroundings, Survival,
    Weibulls,
};
use idlewild_protocol::{DepartureCause, HORIZONS_S};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Rounding may lift a value that is constant by this much.
const ROUNDING: f64 = 1e-9;

/// The absolute error of a survival, and the relative one of a cumulative hazard, that a digest's bytes may have.
const DIGEST_ERROR_OF_SURVIVAL: f64 = 0.011;
const DIGEST_ERROR_OF_HAZARD: f64 = 0.029;

/// Something an estimator may be told.
#[derive(Debug, Clone)]
enum Told {
    Begin(Option<f64>, Surroundings),
    GoOn(Surroundings),
    End(Ending),
    Forget,
    Refit,
}

/// Lengths from a millisecond to four days, log-spaced.
fn seconds() -> impl Strategy<Value = f64> {
    (-3.0..5.5_f64).prop_map(|exponent| 10.0_f64.powf(exponent))
}

/// Times as they come, and some that are none.
fn odd_seconds() -> impl Strategy<Value = f64> {
    let odd = prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1e300), Just(1e300), Just(0.0), Just(-5.0)];
    prop_oneof![8 => 0.0..1e6_f64, 1 => odd]
}

fn surroundings() -> impl Strategy<Value = Surroundings> {
    (option::of(odd_seconds()), option::of(0..3_u64), any::<bool>(), option::of(odd_seconds())).prop_map(
        |(week_offset_s, site, locked, scheduled_end_s)| {
            let signs = if locked { Signs::NONE.with(Sign::Locked) } else { Signs::NONE };
            Surroundings { week_offset_s, site, signs, scheduled_end_s }
        },
    )
}

fn told() -> impl Strategy<Value = (f64, u8, Told)> {
    let ending = prop_oneof![
        Just(Ending::Censored),
        Just(Ending::Departed(DepartureCause::Sleep)),
        Just(Ending::Departed(DepartureCause::OwnerReturned))
    ];
    let what = prop_oneof![
        6 => (option::of(prop_oneof![3 => Just(0.0), 1 => odd_seconds()]), surroundings())
            .prop_map(|(age_s, surroundings)| Told::Begin(age_s, surroundings)),
        2 => surroundings().prop_map(Told::GoOn),
        6 => ending.prop_map(Told::End),
        1 => Just(Told::Forget),
        1 => Just(Told::Refit),
    ];
    (odd_seconds(), 0..4_u8, what)
}

/// A history in time order, but for the odd times in it.
fn history() -> impl Strategy<Value = Vec<(f64, u8, Told)>> {
    vec(told(), 0..60).prop_map(|mut history| {
        history.sort_by(|a, b| a.0.total_cmp(&b.0));
        history
    })
}

fn tell(estimator: &mut dyn Estimator<u8>, history: &[(f64, u8, Told)]) {
    for (at_s, peer, told) in history {
        match told {
            Told::Begin(age_s, surroundings) => estimator.begin(*at_s, peer, *age_s, *surroundings),
            Told::GoOn(surroundings) => estimator.go_on(*at_s, peer, *surroundings),
            Told::End(ending) => estimator.end(*at_s, peer, *ending),
            Told::Forget => estimator.forget(peer),
            Told::Refit => estimator.refit(*at_s),
        }
    }
    estimator.refit(1e6);
}

fn estimators() -> [Box<dyn Estimator<u8>>; 4] {
    [
        Box::new(KaplanMeiers::pooled()),
        Box::new(KaplanMeiers::per_peer(2)),
        Box::new(Weibulls::default()),
        Box::new(Frailty::default()),
    ]
}

/// Whether the conditional survival is 1 at 0, within [0, 1], and never rises over `at_s`, which ascend.
fn is_survival_function(prediction: &Prediction<'_>, at_s: &[f64]) -> Result<(), TestCaseError> {
    let hazard = prediction.hazard();
    prop_assert!((hazard.survival(0.0) - 1.0).abs() <= ROUNDING, "S(0) = {}", hazard.survival(0.0));
    let mut before = 1.0;
    for &t_s in at_s {
        let now = hazard.survival(t_s);
        prop_assert!((0.0..=1.0 + ROUNDING).contains(&now), "S({t_s}) = {now} of {prediction:?}");
        prop_assert!(now <= before + ROUNDING, "S rises from {before} to {now} at {t_s} of {prediction:?}");
        before = now;
    }
    Ok(())
}

/// The segments of a prediction's curve.
fn segments(prediction: &Prediction<'_>, horizon_s: f64) -> Vec<Segment> {
    let mut segments = Vec::new();
    prediction.curve.for_each_segment(prediction.age_s, horizon_s, &mut |segment| segments.push(segment));
    segments
}

/// Whether an estimator that is stored and read back answers the same.
fn survives_storage<E>(
    mut estimator: E,
    history: &[(f64, u8, Told)],
    now_s: f64,
    age_s: f64,
) -> Result<(), TestCaseError>
where
    E: Estimator<u8> + Serialize + DeserializeOwned + PartialEq,
{
    tell(&mut estimator, history);
    let text = serde_json::to_string(&estimator).unwrap();
    let read: E = serde_json::from_str(&text).unwrap();
    prop_assert!(read == estimator, "read back as another");
    for (peer, t_s) in (0..5).flat_map(|peer| [1.0, 100.0, 1e5].map(|t_s| (peer, t_s))) {
        let [a, b] = [&estimator, &read].map(|from| from.predict(now_s, &peer, age_s).hazard().survival(t_s));
        prop_assert_eq!(a.to_bits(), b.to_bits());
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_prediction_is_a_survival_function(
        history in history(), now_s in odd_seconds(), age_s in odd_seconds(), mut at_s in vec(seconds(), 12),
    ) {
        at_s.sort_by(f64::total_cmp);
        for mut estimator in estimators() {
            tell(estimator.as_mut(), &history);
            for peer in 0..5 {
                let prediction = estimator.predict(now_s, &peer, age_s);
                is_survival_function(&prediction, &at_s)?;
            }
        }
    }

    #[test]
    fn segments_cover_the_horizon_and_lose_what_the_curve_loses(
        history in history(), age_s in seconds(), horizon_s in seconds(),
    ) {
        for mut estimator in estimators() {
            tell(estimator.as_mut(), &history);
            let prediction = estimator.predict(1e6, &1, age_s);
            let segments = segments(&prediction, horizon_s);
            let covered_s: f64 = segments.iter().map(|s| s.length_s).sum();
            prop_assert!((covered_s / horizon_s - 1.0).abs() < 1e-9, "{covered_s} of {horizon_s}");
            prop_assert!(segments.iter().all(|s| s.length_s > 0.0 && s.rate_per_s >= 0.0 && s.rate_per_s.is_finite()));
            let lost: f64 = segments.iter().map(|s| s.length_s * s.rate_per_s).sum();
            let survival = prediction.hazard().survival(horizon_s);
            prop_assert!(((-lost).exp() - survival).abs() < 1e-6, "{} and {survival}", (-lost).exp());
        }
    }

    #[test]
    fn a_prediction_survives_its_digest_within_the_stated_error(history in history(), age_s in 0.0..1e5_f64) {
        for mut estimator in estimators() {
            tell(estimator.as_mut(), &history);
            let prediction = estimator.predict(1e6, &1, age_s);
            let digest = DigestCurve::new(&prediction.quantise());
            for horizon_s in HORIZONS_S {
                let (exact, read) = (prediction.hazard().survival(horizon_s), digest.survival(horizon_s));
                prop_assert!((exact - read).abs() <= DIGEST_ERROR_OF_SURVIVAL, "S({horizon_s}): {exact}, read {read}");
                let (exact, read) = (-exact.ln(), -read.ln());
                // Nearer to the last code a digest says no more than "gone".
                let has_code = (1e-5..19.0).contains(&exact);
                prop_assert!(!has_code || (read / exact - 1.0).abs() <= DIGEST_ERROR_OF_HAZARD, "{exact}, read {read}");
            }
        }
    }

    #[test]
    fn what_is_stored_and_read_back_answers_the_same(
        history in history(), now_s in 0.0..2e6_f64, age_s in seconds(),
    ) {
        survives_storage(KaplanMeiers::pooled(), &history, now_s, age_s)?;
        survives_storage(KaplanMeiers::per_peer(2), &history, now_s, age_s)?;
        survives_storage(Weibulls::default(), &history, now_s, age_s)?;
        survives_storage(Frailty::default(), &history, now_s, age_s)?;
    }

    #[test]
    fn the_factor_of_a_peer_is_positive_and_finite_whatever_was_told(history in history(), now_s in odd_seconds()) {
        let mut model = Frailty::default();
        tell(&mut model, &history);
        for peer in 0..5 {
            let theta = model.theta(now_s, &peer);
            prop_assert!(theta.is_finite() && theta > 0.0, "{theta}");
        }
    }
}
