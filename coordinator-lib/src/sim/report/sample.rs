//! A number of each of several runs: its mean, and how sure that is.

use serde::Serialize;

/// One number a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample(Vec<f64>);

/// A mean, with the interval in which it lies with 95 % confidence (Student's t). The interval of a single run is not known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The half width of the interval; none of fewer than two runs.
    pub half_width: Option<f64>,
}

/// The quantile of the standard normal distribution at 0.975.
const Z: f64 = 1.959_963_984_540_054;

impl Sample {
    /// Of these numbers.
    pub fn new(numbers: Vec<f64>) -> Self {
        Self(numbers)
    }

    /// The mean and its interval; 0 of no runs.
    pub fn estimate(&self) -> Estimate {
        let count = self.0.len() as f64;
        if self.0.is_empty() {
            return Estimate { mean: 0.0, half_width: None };
        }
        let mean = self.0.iter().sum::<f64>() / count;
        let half_width = (self.0.len() > 1).then(|| {
            let variance = self.0.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
            student_t(count - 1.0) * (variance / count).sqrt()
        });
        Estimate { mean, half_width }
    }

    /// Number by number, this less another of the same runs.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one - other).collect())
    }
}

/// The quantile of Student's distribution at 0.975, for this many degrees of freedom. Exact for one and two, else the
/// expansion by Cornish and Fisher (Abramowitz and Stegun 26.7.5): within 1 % from 3 on, 0.01 % from 10 on.
fn student_t(degrees: f64) -> f64 {
    if degrees < 1.5 {
        return 12.706_204_736;
    }
    if degrees < 2.5 {
        return 4.302_652_730;
    }
    let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
    Z + (z3 + Z) / (4.0 * degrees)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * degrees.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * degrees.powi(3))
}

/// The value below which this share of `sorted` (in rising order) lies, linear between neighbours; none of none.
pub(super) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let low = place.floor() as usize;
    let (from, to) = (sorted.get(low)?, sorted.get((low + 1).min(last))?);
    Some(from + (to - from) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_students_distribution_are_those_of_the_tables() {
        for (degrees, expected) in [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (9.0, 2.262), (39.0, 2.023)] {
            let found = student_t(degrees);
            assert!((found / expected - 1.0).abs() < 0.01, "{degrees}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_mean_comes_with_its_interval() {
        let sample = Sample::new(vec![1.0, 2.0, 3.0, 4.0]);
        let Estimate { mean, half_width } = sample.estimate();
        // Deviation 1.29, of the mean 0.645, times 3.18.
        assert!(mean == 2.5 && (half_width.unwrap() - 2.054).abs() < 0.02, "{half_width:?}");
        assert_eq!(sample.less(&Sample::new(vec![0.0, 1.0, 2.0, 3.0])).estimate().half_width, Some(0.0));
        assert_eq!(Sample::new(vec![7.0]).estimate(), Estimate { mean: 7.0, half_width: None });
    }

    #[test]
    fn percentiles_lie_between_neighbours() {
        for (share, expected) in [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0), (0.99, 3.97)] {
            assert!((percentile(&[1.0, 2.0, 3.0, 4.0], share).unwrap() - expected).abs() < 1e-12);
        }
        assert_eq!(percentile(&[], 0.5), None);
    }
}
