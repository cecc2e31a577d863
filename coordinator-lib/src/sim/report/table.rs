//! A comparison as text.

use core::fmt;

use super::{Comparison, Difference, Estimate};

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As many digits as the interval bears.
        let digits = if self.mean.abs() >= 100.0 { 1 } else { 2 };
        match self.half_width {
            Some(half_width) => write!(f, "{:.digits$} ±{half_width:.digits$}", self.mean),
            None => write!(f, "{:.digits$}", self.mean),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.paired)?;
        self.ratio.map_or(Ok(()), |ratio| write!(f, " (x{ratio:.2})"))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.policies.first().map_or("", |policy| &policy.policy);
        writeln!(
            f,
            "{}, {} seeds, 95 % intervals; differences are from {first}, seed by seed",
            self.scenario,
            self.seeds.len()
        )?;
        for policy in &self.policies {
            writeln!(f, "\n{}", policy.policy)?;
            for row in &policy.metrics {
                let difference = row.difference.map(|difference| difference.to_string()).unwrap_or_default();
                writeln!(f, "  {:<20} {:>18}  {difference}", row.metric, row.value.to_string())?;
            }
        }
        Ok(())
    }
}
