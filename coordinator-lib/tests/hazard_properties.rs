//! What must hold of an estimate of survival, whatever the history.

mod random;

use idlewild_coordinator::hazard::{DigestCurve, KaplanMeier, Survival, quantise, quantise_sessions};
use idlewild_protocol::HORIZONS_S;
use proptest::collection::vec;
use proptest::prelude::*;
use random::{seconds, sessions};

/// Rounding may lift a value that is constant by this much.
const ROUNDING: f64 = 1e-12;

/// Below this S(age) the published conditional survival is no longer a quotient.
const LEAST_SURVIVAL_AT_AGE: f64 = 1e-12;

/// The absolute error of a survival, and the relative one of a cumulative hazard, that a digest's bytes may have.
const DIGEST_ERROR_OF_SURVIVAL: f64 = 0.011;
const DIGEST_ERROR_OF_HAZARD: f64 = 0.029;

/// Times at which a curve is looked at, ascending: 0, its steps, just before them, and `others`.
fn instants(curve: &KaplanMeier, others: &[f64]) -> Vec<f64> {
    let steps = curve.times_s().iter().flat_map(|&t_s| [t_s.next_down(), t_s]);
    sorted([0.0].into_iter().chain(steps).chain(others.iter().copied()))
}

fn sorted(times_s: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = times_s.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Whether `survival` is 1 at 0, within [0, 1], and never rises over `instants`.
fn is_survival_function(survival: impl Fn(f64) -> f64, instants: &[f64]) -> Result<(), TestCaseError> {
    prop_assert!((survival(0.0) - 1.0).abs() <= ROUNDING, "S(0) = {}", survival(0.0));
    let mut before = 1.0;
    for &t_s in instants {
        let now = survival(t_s);
        prop_assert!((0.0..=1.0 + ROUNDING).contains(&now), "S({t_s}) = {now}");
        prop_assert!(now <= before + ROUNDING, "S rises from {before} to {now} at {t_s}");
        before = now;
    }
    Ok(())
}

/// Whether rounding may decide on which side of a step `t_s` lies.
fn is_at_a_step(curve: &KaplanMeier, t_s: f64) -> bool {
    curve.times_s().iter().any(|&step_s| (step_s - t_s).abs() <= 1e-9 * step_s)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn survival_given_any_age_is_a_survival_function(
        sessions in sessions(), age_s in seconds(), at in vec(seconds(), 8),
    ) {
        let curve = KaplanMeier::fit(&sessions);
        let instants = instants(&curve, &at);
        is_survival_function(|t_s| curve.survival(t_s), &instants)?;
        is_survival_function(|t_s| curve.remaining(age_s, t_s), &instants)?;
        prop_assume!(curve.survival(age_s) >= LEAST_SURVIVAL_AT_AGE);
        is_survival_function(|t_s| curve.conditional(age_s, t_s), &instants)?;
    }

    #[test]
    fn surviving_twice_is_surviving_the_sum(
        sessions in sessions(), age_s in seconds(), a_s in seconds(), b_s in seconds(),
    ) {
        let curve = KaplanMeier::fit(&sessions);
        prop_assume!(curve.survival(age_s + a_s) >= 1e-9 && !is_at_a_step(&curve, age_s + a_s + b_s));
        let twice = curve.conditional(age_s, a_s) * curve.conditional(age_s + a_s, b_s);
        let once = curve.conditional(age_s, a_s + b_s);
        prop_assert!((twice - once).abs() <= 1e-9, "{twice} and {once}");
    }

    #[test]
    fn what_remains_is_the_published_conditional_where_no_floor_is_near(
        sessions in sessions(), age_s in seconds(), t_s in seconds(),
    ) {
        let curve = KaplanMeier::fit(&sessions);
        prop_assume!(curve.survival(age_s + t_s) > 1e-8);
        let (exact, published) = (curve.remaining(age_s, t_s), curve.conditional(age_s, t_s));
        prop_assert!((exact - published).abs() <= 1e-9, "{exact} and {published}");
    }

    #[test]
    fn a_curve_survives_its_digest_within_the_stated_error(sessions in sessions(), age_s in seconds()) {
        let curve = KaplanMeier::fit(&sessions);
        let digest = DigestCurve::new(&quantise(&curve, age_s));
        for horizon_s in HORIZONS_S {
            let (exact, read) = (curve.remaining(age_s, horizon_s), digest.survival(horizon_s));
            prop_assert!((exact - read).abs() <= DIGEST_ERROR_OF_SURVIVAL, "S({horizon_s}): {exact}, read {read}");
            let (exact, read) = (-exact.ln(), -read.ln());
            let has_code = (1e-5..20.0).contains(&exact);
            let is_near = (read / exact - 1.0).abs() <= DIGEST_ERROR_OF_HAZARD;
            prop_assert!(!has_code || is_near, "H({horizon_s}): {exact}, read {read}");
        }
    }

    #[test]
    fn a_digest_is_a_survival_function_at_any_age(
        over in sessions(), live_s in seconds(), age_s in seconds(), at in vec(seconds(), 12),
    ) {
        let digest = DigestCurve::new(&quantise_sessions(&over, live_s));
        let at = sorted(at.into_iter().chain(HORIZONS_S));
        is_survival_function(|t_s| digest.survival(t_s), &at)?;
        is_survival_function(|t_s| digest.conditional(age_s, t_s), &at)?;
    }

    #[test]
    fn the_expected_rest_is_the_area_under_the_curve(
        over in sessions(), live_s in seconds(), age_s in 0.0..3600.0_f64,
    ) {
        let digest = DigestCurve::new(&quantise_sessions(&over, live_s));
        let rest_s = digest.expected_remaining_s(age_s);
        let end_s = HORIZONS_S[HORIZONS_S.len() - 1] - age_s;
        // Bounds from left and right sums over steps that grow by 2 %.
        let (mut most_s, mut least_s, mut from_s) = (0.0, 0.0, 0.0_f64);
        while from_s < end_s {
            let to_s = (from_s * 1.02 + 0.05).min(end_s);
            most_s += digest.conditional(age_s, from_s) * (to_s - from_s);
            least_s += digest.conditional(age_s, to_s) * (to_s - from_s);
            from_s = to_s;
        }
        let slack_s = 1e-9 * most_s;
        prop_assert!((least_s - slack_s..=most_s + slack_s).contains(&rest_s), "{least_s} {rest_s} {most_s}");
    }
}
