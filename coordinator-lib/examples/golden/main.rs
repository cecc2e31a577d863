//! Compares this crate with golden vectors of the published policy: `golden FILE...`.
//!
//! Prints each value that differs, then `N checked, M mismatched`, both counted in cases. Exits 1 where M > 0, else 2
//! where a file could not be read. A trace of the simulator has a case for each policy.

mod vectors;

use std::io::{self, Write};
use std::process::ExitCode;

use vectors::{Report, Unreadable, check};

/// All files agree.
const AGREED: u8 = 0;
/// Something differs.
const MISMATCHED: u8 = 1;
/// A file could not be read, or none was named.
const UNREADABLE: u8 = 2;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    // A closed pipe on the other side of the output is no reason to report a mismatch.
    ExitCode::from(run(&files, &mut io::stdout().lock(), &mut io::stderr().lock()).unwrap_or(UNREADABLE))
}

fn run(files: &[String], out: &mut impl Write, problems: &mut impl Write) -> io::Result<u8> {
    if files.is_empty() {
        writeln!(problems, "usage: golden FILE...")?;
        return Ok(UNREADABLE);
    }
    let (mut total, mut unreadable) = (Report::default(), 0);
    for file in files {
        match read(file) {
            Ok(report) => {
                print(file, &report, out)?;
                total.add(report);
            }
            Err(why) => {
                unreadable += 1;
                writeln!(problems, "{file}: cannot be read: {why}")?;
            }
        }
    }
    writeln!(out, "{} checked, {} mismatched", total.cases, total.wrong_cases)?;
    Ok(match (total.wrong_cases, unreadable) {
        (0, 0) => AGREED,
        (0, _) => UNREADABLE,
        _ => MISMATCHED,
    })
}

fn read(file: &str) -> Result<Report, Unreadable> {
    check(&std::fs::read_to_string(file)?)
}

fn print(file: &str, report: &Report, out: &mut impl Write) -> io::Result<()> {
    for mismatch in &report.mismatches {
        writeln!(out, "{file}: {mismatch}")?;
    }
    let Report { cases, wrong_cases, values, .. } = report;
    writeln!(out, "{file}: {cases} checked, {wrong_cases} mismatched ({values} values)")
}
