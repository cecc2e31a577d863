//! What became of the requests, of one run and of many, as data.
//!
//! ```text
//! Outcome of each request --RunReport::of--> figures of a run --Sample--> mean and interval over seeds
//!                                                  \--paired by seed-----> difference of two policies
//! ```

mod comparison;
mod outcome;
mod run_report;
mod sample;
mod table;

pub use comparison::{Comparison, Difference, MetricRow, PolicyRow};
pub(crate) use outcome::Outcome;
pub use run_report::{Figures, METRICS, Metric, RunReport};
pub use sample::{Estimate, Sample};
