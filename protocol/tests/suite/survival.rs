//! A survival curve in 16 bytes keeps to the error bounds that its documentation gives.

use idlewild_protocol::{HORIZONS_S, QuantisedSurvival};
use proptest::prelude::*;

/// Relative error of the cumulative hazard: half a step of the log scale.
const HAZARD_ERROR: f64 = 0.029;

/// Absolute error of survival.
const SURVIVAL_ERROR: f64 = 0.011;

fn check(survival: impl Fn(f64) -> f64) {
    let read = QuantisedSurvival::of(&survival);
    let rows = HORIZONS_S.iter().zip(read.survival()).zip(read.cumulative_hazard());
    for ((t_s, survived), hazard) in rows {
        let true_survival = survival(*t_s);
        let true_hazard = -true_survival.ln();
        assert!((survived - true_survival).abs() <= SURVIVAL_ERROR, "S({t_s}) = {true_survival}, read {survived}");
        if (1e-5..=20.0).contains(&true_hazard) {
            let error = (hazard / true_hazard - 1.0).abs();
            assert!(error <= HAZARD_ERROR, "H({t_s}) = {true_hazard}, read {hazard}: {error}");
        }
    }
}

#[test]
fn the_horizons_are_log_spaced_from_5_s_to_24_h() {
    let ratio = (86_400.0_f64 / 5.0).powf(1.0 / 15.0);
    for (k, horizon_s) in HORIZONS_S.iter().enumerate() {
        let exact_s = 5.0 * ratio.powi(i32::try_from(k).unwrap());
        assert!((horizon_s / exact_s - 1.0).abs() < 1e-3, "{horizon_s} for {exact_s}");
    }
}

#[test]
fn a_certain_stay_and_a_certain_departure_have_the_first_and_the_last_code() {
    assert_eq!(QuantisedSurvival::of(|_| 1.0).0, [0; 16]);
    assert_eq!(QuantisedSurvival::of(|_| 1.0).survival(), [1.0; 16]);
    assert_eq!(QuantisedSurvival::of(|_| 0.0).0, [255; 16]);
    assert!(QuantisedSurvival::of(|_| 0.0).survival()[0] < 3e-9);
}

#[test]
fn values_outside_0_and_1_are_clamped() {
    assert_eq!(QuantisedSurvival::of(|_| 1.5), QuantisedSurvival::of(|_| 1.0));
    assert_eq!(QuantisedSurvival::of(|_| -0.5), QuantisedSurvival::of(|_| 0.0));
}

#[test]
fn what_is_not_a_number_reads_as_certain_to_leave() {
    let from_the_fourth = QuantisedSurvival::of(|t_s| if t_s < 30.0 { 1.0 } else { f64::NAN });
    assert_eq!(from_the_fourth.0[..3], [0; 3]);
    assert_eq!(from_the_fourth.0[3..], [255; 13]);
}

#[test]
fn a_curve_that_rises_is_levelled() {
    let risen = QuantisedSurvival::of(|t_s| if t_s < 100.0 { 0.5 } else { 0.9 });
    assert_eq!(risen, QuantisedSurvival::of(|_| 0.5));
}

proptest! {
    #[test]
    fn errors_stay_within_their_bounds(scale_s in 1e-1..1e9_f64, shape in 0.3..3.0_f64) {
        check(|t_s| (-(t_s / scale_s).powf(shape)).exp());
    }

    #[test]
    fn codes_never_fall_whatever_the_curve(values in proptest::collection::vec(-0.5..1.5_f64, 16)) {
        let at = |t_s: f64| HORIZONS_S.iter().position(|h| *h >= t_s).unwrap();
        let codes = QuantisedSurvival::of(|t_s| values[at(t_s)]).0;
        prop_assert!(codes.is_sorted());
    }

    #[test]
    fn a_curve_that_was_read_is_written_the_same(mut codes in any::<[u8; 16]>()) {
        codes.sort_unstable();
        let read = QuantisedSurvival(codes);
        let at = |t_s: f64| HORIZONS_S.iter().position(|h| *h >= t_s).unwrap();
        prop_assert_eq!(QuantisedSurvival::of(|t_s| read.survival()[at(t_s)]), read);
    }
}
