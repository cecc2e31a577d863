//! The published policy's vectors: an excerpt in the repository, the whole set where `IDLEWILD_GOLDEN_DIR` names it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../examples/golden/vectors/mod.rs"]
mod vectors;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vectors::{Report, Unreadable, check};

const FORMATS: [&str; 6] =
    ["kaplan_meier", "hazard_log", "cost_components", "migration_cost", "place", "should_migrate"];

/// A trace in which each policy does something else.
const TRACE: &str = "sim_trace_tiny";

/// What begins the names of traces.
const TRACE_PREFIX: &str = "sim_trace_";

/// Names the folder with the whole set.
const WHOLE_SET: &str = "IDLEWILD_GOLDEN_DIR";

fn excerpts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn read(folder: &Path, format: &str) -> String {
    let path = folder.join(format!("{format}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The traces in `folder`, without their extension.
fn traces(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let traces: Vec<String> = names.filter(|name| name.starts_with(TRACE_PREFIX)).collect();
    assert!(!traces.is_empty(), "{} has no trace", folder.display());
    traces
}

fn report(text: &str) -> Report {
    check(text).unwrap()
}

fn assert_all_agree(folder: &Path) {
    let mut total = Report::default();
    for format in FORMATS.map(str::to_owned).into_iter().chain(traces(folder)) {
        let report = report(&read(folder, &format));
        assert!(report.cases > 0 && report.values > report.cases, "{format}: nothing was compared");
        total.add(report);
    }
    assert!(total.mismatches.is_empty(), "{} cases differ:\n{}", total.wrong_cases, total.mismatches.join("\n"));
}

#[test]
fn the_committed_vectors_agree() {
    assert_all_agree(&excerpts());
}

#[test]
fn the_whole_set_agrees_where_it_is_given() {
    match std::env::var_os(WHOLE_SET) {
        Some(folder) => assert_all_agree(Path::new(&folder)),
        None => eprintln!("SKIPPED: {WHOLE_SET} names no folder with the whole set of golden vectors"),
    }
}

#[test]
fn a_value_that_differs_by_a_millionth_is_noticed_in_every_format() {
    let places = [
        ("kaplan_meier", "/cases/0/conditional/0/fail_prob"),
        ("hazard_log", "/cases/0/events/QUERY/fail_prob"),
        ("cost_components", "/cases/0/expect/0/E16"),
        ("migration_cost", "/cases/0/planned_cost"),
        ("place", "/cases/0/expect/cost"),
        ("should_migrate", "/cases/0/expect/candidates/0/risk_gain"),
        (TRACE, "/expect/oracle/p99_latency_s"),
        (TRACE, "/expect/hazard_aware/wasted_seconds"),
    ];
    for (format, place) in places {
        let mut file: Value = serde_json::from_str(&read(&excerpts(), format)).unwrap();
        let place = place.replace("QUERY", &first_query(&file).to_string());
        let value = file.pointer_mut(&place).unwrap_or_else(|| panic!("{format} has no {place}"));
        *value = json!(value.as_f64().unwrap() + 1e-6 * value.as_f64().unwrap().abs().max(1.0));
        assert_eq!(report(&file.to_string()).wrong_cases, 1, "{format} {place}");
    }
}

fn first_query(file: &Value) -> usize {
    let events = file.pointer("/cases/0/events").and_then(Value::as_array);
    events.and_then(|events| events.iter().position(|event| event["op"] == "query")).unwrap_or(0)
}

#[test]
fn a_decision_that_differs_is_noticed() {
    for (format, place, other) in [
        ("place", "/cases/0/expect/node", json!("another")),
        ("place", "/cases/0/expect/fastest_node", json!(null)),
        ("migration_cost", "/cases/0/planned_method", json!("teleport")),
        ("should_migrate", "/cases/0/expect/dest", json!("another")),
        (TRACE, "/expect/reactive_fastest/unplanned_migrations", json!(0)),
        (TRACE, "/expect/hazard_aware/planned_migrations", json!(0)),
        (TRACE, "/expect/oracle/completed", json!(3)),
        (TRACE, "/expect/oracle/dropped", json!(0)),
    ] {
        let mut file: Value = serde_json::from_str(&read(&excerpts(), format)).unwrap();
        *file.pointer_mut(place).unwrap() = other;
        assert_eq!(report(&file.to_string()).wrong_cases, 1, "{format} {place}");
    }
}

#[test]
fn a_file_that_cannot_be_compared_is_never_taken_for_one_that_agrees() {
    let cases = [
        ("no JSON", "schema: 1".to_owned()),
        ("no header", "[]".to_owned()),
        ("a later schema", json!({"schema": 2, "file": "place", "count": 0, "cases": []}).to_string()),
        ("an unknown format", json!({"schema": 1, "file": "weather", "count": 0, "cases": []}).to_string()),
        ("a truncated list", json!({"schema": 1, "file": "place", "count": 1, "cases": []}).to_string()),
        ("a trace without events", json!({"schema": 1, "file": "sim_trace_vol_s0"}).to_string()),
        ("a trace with other steps", changed_trace("/dt_s", json!(0.5))),
        ("a trace with a node too many", changed_trace("/churn/0/1", json!(2))),
        ("a case without values", json!({"schema": 1, "file": "place", "count": 1, "cases": [{"id": 0}]}).to_string()),
    ];
    for (name, text) in cases {
        let result: Result<Report, Unreadable> = check(&text);
        assert!(result.is_err(), "{name} was read");
    }
}

fn changed_trace(place: &str, value: Value) -> String {
    let mut file: Value = serde_json::from_str(&read(&excerpts(), TRACE)).unwrap();
    *file.pointer_mut(place).unwrap() = value;
    file.to_string()
}
