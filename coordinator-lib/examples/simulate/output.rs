//! Results, as text and as JSON.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use idlewild_coordinator::sim::report::Comparison;
use serde_json::json;

/// Simulated hours that the published reference manages in a second of a processor, by fleet.
const REFERENCE: [(&str, f64); 2] = [("volunteer", 0.064), ("mixed", 0.038)];

/// How fast a policy was simulated.
pub(crate) struct Speed {
    policy: String,
    hours: f64,
    events: u64,
    took: Duration,
}

impl Speed {
    pub(crate) fn new(policy: &str, simulated_s: f64, events: u64, took: Duration) -> Self {
        Self { policy: policy.to_owned(), hours: simulated_s / 3600.0, events, took }
    }

    fn line(&self, scenario: &str) -> String {
        let seconds = self.took.as_secs_f64();
        if seconds <= 0.0 {
            return format!("{}: {:.1} simulated hours, {} events", self.policy, self.hours, self.events);
        }
        let rate = self.hours / seconds;
        let known = REFERENCE.iter().find(|(name, _)| *name == scenario);
        let times = known.map(|(_, reference)| format!(", {:.0} times the published reference", rate / reference));
        let times = times.unwrap_or_default();
        format!("{}: {rate:.1} simulated hours a CPU second{times}, {} events", self.policy, self.events)
    }
}

/// For people.
pub(crate) fn table(comparison: &Comparison, speeds: &[Speed]) -> String {
    let mut text = comparison.to_string();
    text.push('\n');
    for speed in speeds {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", speed.line(&comparison.scenario));
    }
    text
}

/// For programs: what was asked, and all figures of all runs. No times of this machine: one command gives one file.
pub(crate) fn json(comparison: &Comparison, arguments: &[String]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(&json!({
        "schema": 1,
        "simulator": env!("CARGO_PKG_VERSION"),
        "arguments": arguments,
        "comparison": comparison,
    }))?;
    text.push('\n');
    Ok(text)
}

/// Writes beside the file and then takes its place: whoever reads it finds the old one, the new one, or none.
pub(crate) fn write_whole(file: &str, text: &str) -> Result<(), String> {
    let beside = format!("{file}.part");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, Path::new(file)));
    written.map_err(|error| {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&beside);
        format!("{file}: {error}")
    })
}
