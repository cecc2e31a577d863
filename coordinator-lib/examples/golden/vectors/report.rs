//! What was compared and what differs.

use core::fmt::{Debug, Display};

/// Numbers agree where they differ by at most this, absolutely up to 1 and relatively beyond.
const TOLERANCE: f64 = 1e-9;

/// The result for one file, or for several.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) cases: usize,
    /// Cases with at least one value that differs.
    pub(crate) wrong_cases: usize,
    pub(crate) values: usize,
    /// A line for each value that differs.
    pub(crate) mismatches: Vec<String>,
}

impl Report {
    pub(super) fn case(
        &mut self,
        id: u64,
        check: impl FnOnce(&mut Case<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let before = self.mismatches.len();
        check(&mut Case { id, report: self })?;
        self.cases += 1;
        self.wrong_cases += usize::from(self.mismatches.len() > before);
        Ok(())
    }

    pub(crate) fn add(&mut self, other: Report) {
        self.cases += other.cases;
        self.wrong_cases += other.wrong_cases;
        self.values += other.values;
        self.mismatches.extend(other.mismatches);
    }
}

/// Where the values of one case go.
pub(super) struct Case<'a> {
    id: u64,
    report: &'a mut Report,
}

impl Case<'_> {
    /// Compares numbers.
    pub(super) fn near(&mut self, what: impl Display, got: f64, expected: f64) {
        let is_near = (got - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
        self.record(is_near, &what, &got, &expected);
    }

    /// Compares numbers of which either may be absent.
    pub(super) fn near_or_none(&mut self, what: impl Display, got: Option<f64>, expected: Option<f64>) {
        match (got, expected) {
            (Some(got), Some(expected)) => self.near(what, got, expected),
            _ => self.same(what, &got, &expected),
        }
    }

    /// Compares anything else.
    pub(super) fn same<T: PartialEq + Debug>(&mut self, what: impl Display, got: &T, expected: &T) {
        self.record(got == expected, &what, got, expected);
    }

    fn record(&mut self, agrees: bool, what: &dyn Display, got: &dyn Debug, expected: &dyn Debug) {
        self.report.values += 1;
        if !agrees {
            self.report.mismatches.push(format!("case {}: {what}: got {got:?}, expected {expected:?}", self.id));
        }
    }
}
