//! Forecasts of whether something happens.

/// A probability, and whether what it was of happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binary {
    /// In [0, 1].
    pub probability: f64,
    /// Whether it happened.
    pub happened: bool,
}

impl Binary {
    fn outcome(&self) -> f64 {
        f64::from(u8::from(self.happened))
    }
}

/// Groups into which forecasts are put, by their probability, to compare it with what happened.
const GROUPS: usize = 10;

/// The mean squared error; 0 of no forecasts.
pub fn brier(forecasts: &[Binary]) -> f64 {
    mean(forecasts, |forecast| (forecast.probability - forecast.outcome()).powi(2))
}

/// Which part of the Brier score of `reference` the forecasts save: 1 is perfect, 0 no better, below 0 worse. 0 where
/// the reference is perfect.
pub fn brier_skill(forecasts: &[Binary], reference: &[Binary]) -> f64 {
    let reference = brier(reference);
    if reference > 0.0 { 1.0 - brier(forecasts) / reference } else { 0.0 }
}

/// How far probabilities are from frequencies: the mean distance over ten groups of equal size, from the least
/// probabilities to the greatest.
pub fn calibration_error(forecasts: &[Binary]) -> f64 {
    let sorted = by_probability(forecasts);
    let size = sorted.len().div_ceil(GROUPS).max(1);
    let off = |group: &[Binary]| {
        let distance = mean(group, |forecast| forecast.probability) - mean(group, Binary::outcome);
        distance.abs() * group.len() as f64
    };
    sorted.chunks(size).map(off).sum::<f64>() / sorted.len().max(1) as f64
}

/// The probability that of one that happened and one that did not the former had the greater probability, a tie being
/// half (area under the ROC curve); none where all or none happened.
pub fn concordance(forecasts: &[Binary]) -> Option<f64> {
    let sorted = by_probability(forecasts);
    let (mut ranks_of_happened, mut below) = (0.0, 0.0);
    for tied in sorted.chunk_by(|a, b| a.probability == b.probability) {
        let size = tied.len() as f64;
        let rank = below + f64::midpoint(size, 1.0);
        ranks_of_happened += rank * tied.iter().map(Binary::outcome).sum::<f64>();
        below += size;
    }
    let happened: f64 = sorted.iter().map(Binary::outcome).sum();
    let others = sorted.len() as f64 - happened;
    (happened > 0.0 && others > 0.0)
        .then(|| (ranks_of_happened - happened * (happened + 1.0) / 2.0) / (happened * others))
}

fn by_probability(forecasts: &[Binary]) -> Vec<Binary> {
    let mut sorted = forecasts.to_vec();
    sorted.sort_by(|a, b| a.probability.total_cmp(&b.probability));
    sorted
}

fn mean(forecasts: &[Binary], value: impl Fn(&Binary) -> f64) -> f64 {
    forecasts.iter().map(value).sum::<f64>() / forecasts.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecasts(of: &[(f64, bool)]) -> Vec<Binary> {
        of.iter().map(|&(probability, happened)| Binary { probability, happened }).collect()
    }

    #[test]
    fn a_brier_score_is_the_mean_squared_error() {
        assert!((brier(&forecasts(&[(0.2, false), (0.6, true)])) - 0.1).abs() < 1e-12);
        assert_eq!(brier(&[]), 0.0);
    }

    #[test]
    fn skill_is_what_is_saved_of_the_reference() {
        let (good, poor) = (forecasts(&[(0.9, true), (0.1, false)]), forecasts(&[(0.5, true), (0.5, false)]));
        assert!((brier_skill(&good, &poor) - 0.96).abs() < 1e-12);
        assert_eq!(brier_skill(&poor, &poor), 0.0);
        assert!(brier_skill(&poor, &good) < 0.0);
        assert_eq!(brier_skill(&poor, &forecasts(&[(1.0, true)])), 0.0);
    }

    #[test]
    fn calibration_compares_groups_and_not_single_forecasts() {
        let half: Vec<Binary> = (0..100).map(|k| Binary { probability: 0.5, happened: k % 2 == 0 }).collect();
        assert!(calibration_error(&half) < 1e-12);
        let never: Vec<Binary> = half.iter().map(|f| Binary { happened: false, ..*f }).collect();
        assert!((calibration_error(&never) - 0.5).abs() < 1e-12);
        let split: Vec<Binary> =
            (0..100).map(|k| Binary { probability: if k < 50 { 0.2 } else { 0.8 }, happened: k >= 50 }).collect();
        assert!((calibration_error(&split) - 0.2).abs() < 1e-12);
        assert_eq!(calibration_error(&[]), 0.0);
    }

    #[test]
    fn concordance_counts_pairs_and_halves_ties() {
        let check = |of: &[(f64, bool)], expected| assert_eq!(concordance(&forecasts(of)), expected);
        check(&[(0.9, true), (0.1, false)], Some(1.0));
        check(&[(0.1, true), (0.9, false)], Some(0.0));
        check(&[(0.5, true), (0.5, false), (0.5, false)], Some(0.5));
        check(&[(0.7, true), (0.5, true), (0.5, false), (0.6, false)], Some(0.625));
        check(&[(0.7, true)], None);
        check(&[], None);
    }
}
