//! A time in one byte keeps to the bounds that its documentation gives, whatever is told.

use idlewild_protocol::QuantisedTime;
use proptest::prelude::*;

/// Relative error: half a step of the log scale.
const ERROR: f64 = 0.022;

#[test]
fn what_was_not_measured_has_no_time_and_what_is_out_of_range_the_nearest() {
    assert_eq!(QuantisedTime::default().seconds(), None);
    assert_eq!(QuantisedTime::of(f64::NAN), QuantisedTime::default());
    for (seconds, code) in [(0.0, 1), (-5.0, 1), (0.001, 1), (60.0, 255), (1e9, 255), (f64::INFINITY, 255)] {
        assert_eq!(QuantisedTime::of(seconds), QuantisedTime(code), "{seconds}");
    }
    let ends = [1, 255].map(|code| QuantisedTime(code).seconds().unwrap());
    assert!((ends[0] - 0.001).abs() < 1e-12 && (ends[1] - 60.0).abs() < 1e-9, "{ends:?}");
}

#[test]
fn every_code_is_read_as_it_was_written_and_later_ones_are_longer() {
    let times: Vec<f64> = (1..=255).map(|code| QuantisedTime(code).seconds().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b));
    for (code, seconds) in (1..=255).zip(times) {
        assert_eq!(QuantisedTime::of(seconds), QuantisedTime(code));
    }
}

proptest! {
    #[test]
    fn a_time_is_read_with_a_small_error(ln_s in 0.001_f64.ln()..60.0_f64.ln()) {
        let (seconds, read) = (ln_s.exp(), QuantisedTime::of(ln_s.exp()).seconds().unwrap());
        prop_assert!((read / seconds - 1.0).abs() < ERROR, "{seconds} read as {read}");
    }
}
