//! Reads golden vectors and compares them with what this crate computes. Shared by the example and a test.

mod cost;
mod hazard;
mod migrate;
mod place;
mod report;
mod scene;
mod trace;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use report::Case;
pub(crate) use report::Report;

/// The version of the vectors' schema that is understood here.
const SCHEMA: u32 = 1;

/// What traces of the reference's simulator are called; the rest of the name tells the fleet and the seed.
const TRACE_PREFIX: &str = "sim_trace_";

/// Why a file says nothing about this crate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("{0}")]
    File(#[from] std::io::Error),
    #[error("not the JSON expected: {0}")]
    Json(#[from] serde_json::Error),
    #[error("schema {0} is not known")]
    Schema(u32),
    #[error("{0:?} names no known format")]
    Format(String),
    #[error("it announces {announced} cases and holds {found}")]
    Count { announced: usize, found: usize },
    #[error("the trace: {0}")]
    Trace(String),
    #[error("case {id}: {what}")]
    Case { id: u64, what: String },
}

#[derive(Deserialize)]
struct Header {
    schema: u32,
    file: String,
}

#[derive(Deserialize)]
struct Cases<C> {
    count: usize,
    cases: Vec<C>,
}

/// One case of a format.
trait Vector: DeserializeOwned {
    fn id(&self) -> u64;

    /// Compares; says what is wrong with the case where it cannot.
    fn check(&self, case: &mut Case<'_>) -> Result<(), String>;
}

/// Compares the vectors in `text`, whichever format they are of.
pub(crate) fn check(text: &str) -> Result<Report, Unreadable> {
    let header: Header = serde_json::from_str(text)?;
    if header.schema != SCHEMA {
        return Err(Unreadable::Schema(header.schema));
    }
    match header.file.as_str() {
        "kaplan_meier" => check_all::<hazard::KaplanMeierCase>(text),
        "hazard_log" => check_all::<hazard::HazardLogCase>(text),
        "cost_components" => check_all::<cost::ComponentsCase>(text),
        "migration_cost" => check_all::<cost::MigrationCase>(text),
        "place" => check_all::<place::PlaceCase>(text),
        "should_migrate" => check_all::<migrate::MigrateCase>(text),
        trace if trace.starts_with(TRACE_PREFIX) => trace::check(text),
        _ => Err(Unreadable::Format(header.file)),
    }
}

fn check_all<C: Vector>(text: &str) -> Result<Report, Unreadable> {
    let Cases { count, cases }: Cases<C> = serde_json::from_str(text)?;
    if count != cases.len() {
        return Err(Unreadable::Count { announced: count, found: cases.len() });
    }
    let mut report = Report::default();
    for vector in &cases {
        let id = vector.id();
        report.case(id, |case| vector.check(case)).map_err(|what| Unreadable::Case { id, what })?;
    }
    Ok(report)
}
