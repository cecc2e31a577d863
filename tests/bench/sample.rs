//! Medians and quartiles.

use std::fmt;

/// Measurements of one thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Takes in what another one has.
    pub(crate) fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// The value below which this share lies (nearest rank); NaN where nothing was measured.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1) as f64;
        sorted.get((share * last).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let (low, middle, high) = (self.quantile(0.25), self.median(), self.quantile(0.75));
        write!(f, "{middle:.digits$} [{low:.digits$}..{high:.digits$}]")
    }
}
