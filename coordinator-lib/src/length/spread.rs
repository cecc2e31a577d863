//! How much groups differ, against how much answers of one group do: it decides how soon a group is believed.

use serde::{Deserialize, Serialize};

use super::group::Moments;

/// How many answers the level above a group counts as, before groups can be compared, and at least and at most.
const STRENGTH_AT_FIRST: f64 = 4.0;
const STRENGTHS: [f64; 2] = [0.5, 100.0];

/// Groups that must have been seen, and answers for each, before they are compared.
const LEAST_GROUPS: f64 = 5.0;
const LEAST_ANSWERS_EACH: f64 = 2.0;

/// Sums over the groups of one level, kept up to date group by group.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Spread {
    groups: f64,
    all: Moments,
    /// Sum of the squared counts.
    squared_counts: f64,
    /// Sum of count times squared mean.
    weighted_squared_means: f64,
}

impl Spread {
    /// Takes in that a group changed: `before` is empty for a new one, `after` for one that was forgotten.
    pub(super) fn replace(&mut self, before: Moments, after: Moments) {
        self.take(before, -1.0);
        self.take(after, 1.0);
    }

    fn take(&mut self, group: Moments, sign: f64) {
        if group.count > 0.0 {
            self.groups += sign;
            self.all.count += sign * group.count;
            self.all.sum += sign * group.sum;
            self.all.squares += sign * group.squares;
            self.squared_counts += sign * group.count * group.count;
            self.weighted_squared_means += sign * group.sum * group.sum / group.count;
        }
    }

    /// The variance of log lengths within groups over that of the groups' means (one-way analysis of variance, method
    /// of moments): a group of n answers weighs n / (n + this).
    pub(super) fn strength(&self) -> f64 {
        let Moments { count, sum, squares } = self.all;
        if self.groups < LEAST_GROUPS || count < LEAST_ANSWERS_EACH * self.groups {
            return STRENGTH_AT_FIRST;
        }
        let within = (squares - self.weighted_squared_means) / (count - self.groups);
        let mean_squares = (self.weighted_squared_means - sum * sum / count) / (self.groups - 1.0);
        let typical_count = (count - self.squared_counts / count) / (self.groups - 1.0);
        let between = (mean_squares - within) / typical_count;
        let ratio = within / between;
        // Groups that differ less than chance makes them are one group.
        if between > 0.0 && ratio.is_finite() { ratio.clamp(STRENGTHS[0], STRENGTHS[1]) } else { STRENGTHS[1] }
    }
}
