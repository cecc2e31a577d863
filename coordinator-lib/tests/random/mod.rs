//! Random histories, for the property tests.

use idlewild_coordinator::hazard::Session;
use proptest::collection::vec;
use proptest::prelude::*;

/// Lengths from a millisecond to four days, log-spaced.
pub(crate) fn seconds() -> impl Strategy<Value = f64> {
    (-3.0..5.5_f64).prop_map(|exponent| 10.0_f64.powf(exponent))
}

/// None to forty sessions, about half of them censored.
pub(crate) fn sessions() -> impl Strategy<Value = Vec<Session>> {
    vec((seconds(), any::<bool>()).prop_map(|(length_s, observed)| Session { length_s, observed }), 0..40)
}
