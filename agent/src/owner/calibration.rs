//! When this machine's own forecasts are kept, and what became of them. Pure.

use std::time::Duration;

use idlewild_coordinator::hazard::scores::{Binary, Outcome};

use crate::store::ForecastRecord;

/// Ages of a session at which its forecast is kept: the same for all, so that what is compared was not chosen by the
/// forecast.
pub const CHECKPOINTS: [Duration; 7] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_mins(30),
    Duration::from_hours(1),
    Duration::from_hours(2),
    Duration::from_hours(4),
];

/// Within how many seconds of a checkpoint the session's end is forecast.
pub const HORIZONS_S: [f64; 3] = [60.0, 300.0, 1800.0];

/// The forecasts of the horizon of this index whose outcome is known.
pub fn outcomes(records: &[ForecastRecord], horizon: usize) -> Vec<Binary> {
    let of = |record: &ForecastRecord| {
        let (horizon_s, probability) = (*HORIZONS_S.get(horizon)?, *record.leaves.get(horizon)?);
        let outcome = Outcome { stayed_s: record.length_s - record.age_s, left: record.has_ended };
        Some(Binary { probability, happened: outcome.left_within(horizon_s)? })
    };
    records.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_known_once_the_session_ended_or_outlived_the_horizon() {
        let record =
            |length_s, has_ended| ForecastRecord { age_s: 300.0, leaves: [0.1, 0.2, 0.3], length_s, has_ended };
        let happened = |record: ForecastRecord| -> Vec<Option<bool>> {
            (0..HORIZONS_S.len()).map(|h| outcomes(&[record], h).first().map(|binary| binary.happened)).collect()
        };
        assert_eq!(happened(record(320.0, true)), [Some(true), Some(true), Some(true)]);
        assert_eq!(happened(record(400.0, true)), [Some(false), Some(true), Some(true)]);
        assert_eq!(happened(record(400.0, false)), [Some(false), None, None]);
        assert_eq!(happened(record(300.0, false)), [None, None, None]);
        assert!(outcomes(&[record(400.0, true)], 3).is_empty());
        assert_eq!(outcomes(&[record(400.0, true)], 1)[0].probability, 0.2);
    }

    #[test]
    fn checkpoints_ascend() {
        assert!(CHECKPOINTS.is_sorted() && HORIZONS_S.is_sorted());
    }
}
