//! What runs are made of: tables of recorded life, and machines and requests that are drawn.
//!
//! ```text
//! availability.csv --parse_availability--> hosts, sessions --+
//! workload.csv ------parse_workload------> arrivals ---------+--> Scenario
//! archetypes, seed --churn, arrivals-------------------------+
//! ```
//!
//! Text comes in, and the name that errors give it; files are the caller's.

mod arrivals;
mod availability;
mod churn;
mod faults;
mod workload;

use thiserror::Error;

pub use arrivals::ArrivalSpec;
pub use availability::{Availability, parse_availability};
pub use churn::{LeavingSpec, stays_of};
pub use faults::{Fault, apply_fault};
pub use workload::parse_workload;

use crate::hazard::record::{Fault as RowFault, TableError};

/// A table that cannot be used. Nothing of it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct InputError {
    /// What the caller calls the table.
    pub file: String,
    /// What is wrong with it, and where.
    pub problem: Problem,
}

/// What can be wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A column or a field.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A time, or a count of tokens, that must not be negative, is.
    #[error("line {line}: {column} is negative")]
    Negative {
        /// Which line, from 1.
        line: usize,
        /// What.
        column: &'static str,
    },
    /// A count of tokens is none: not whole, none at all, or more than any context holds.
    #[error("line {line}: {column} must be a whole number of tokens from 1 to {most}")]
    Tokens {
        /// Which line, from 1.
        line: usize,
        /// What.
        column: &'static str,
        /// The most that is believed.
        most: u32,
    },
    /// A row comes before the one ahead of it.
    #[error("line {line}: it begins before the row ahead of it; sort the rows by time")]
    Unsorted {
        /// Which line, from 1.
        line: usize,
    },
    /// There are no rows.
    #[error("it has no rows below the line that names the columns")]
    Empty,
}

impl Problem {
    fn in_file(self, file: &str) -> InputError {
        InputError { file: file.to_owned(), problem: self }
    }
}

impl From<(usize, RowFault)> for Problem {
    fn from((line, fault): (usize, RowFault)) -> Self {
        Self::Table(fault.at(line))
    }
}
