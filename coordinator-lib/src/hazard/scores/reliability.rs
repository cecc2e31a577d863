//! Probabilities beside frequencies, as a table.

use super::Binary;

/// Where the groups of a reliability table end. Most forecasts of leaving soon are small: the groups are finer there.
pub const GROUP_ENDS: [f64; 8] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0];

/// Forecasts of about the same probability, and how often what they were of happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReliabilityGroup {
    /// Probabilities from here,
    pub from: f64,
    /// to here, which belongs to the next group but for 1.
    pub to: f64,
    /// How many.
    pub forecasts: usize,
    /// Their mean probability.
    pub predicted: f64,
    /// Which part of them happened.
    pub observed: f64,
}

/// The groups of these forecasts that are not empty.
pub fn reliability(forecasts: &[Binary]) -> Vec<ReliabilityGroup> {
    let mut groups = Vec::new();
    let mut from = 0.0;
    for to in GROUP_ENDS {
        let is_in = |p: f64| p >= from && (p < to || to >= 1.0);
        let (mut count, mut predicted, mut happened) = (0_usize, 0.0, 0.0);
        for forecast in forecasts.iter().filter(|forecast| is_in(forecast.probability)) {
            count += 1;
            predicted += forecast.probability;
            happened += f64::from(u8::from(forecast.happened));
        }
        if count > 0 {
            let (predicted, observed) = (predicted / count as f64, happened / count as f64);
            groups.push(ReliabilityGroup { from, to, forecasts: count, predicted, observed });
        }
        from = to;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_grouped_by_their_probability() {
        let of = |probability, happened| Binary { probability, happened };
        let groups = reliability(&[of(0.0, false), of(0.04, true), of(0.02, false), of(1.0, true), of(0.7, false)]);
        let seen: Vec<_> = groups.iter().map(|g| (g.from, g.to, g.forecasts, g.observed)).collect();
        assert_eq!(seen, [(0.0, 0.01, 1, 0.0), (0.02, 0.05, 2, 0.5), (0.7, 1.0, 2, 0.5)]);
        assert!((groups[1].predicted - 0.03).abs() < 1e-12);
        assert!(reliability(&[]).is_empty());
    }
}
