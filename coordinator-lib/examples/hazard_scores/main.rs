//! How well the estimators of departures forecast a record of availability: `hazard_scores [--round SECONDS] FILE...`.
//!
//! A file is a table `host,start_s,end_s,censored` (0: both ends seen, 1: still there at the end, 2: there before the
//! beginning, 3: both); beside `NAME.csv` may lie `NAME.windows.csv` (`x.windows.train.csv` beside `x.train.csv`) with
//! `host,obs_start_s,obs_end_s,tz_hours`. Prints a table for each file and each of three splits:
//!
//! - `later`: all hosts are followed; questions fall in the last 30 % of the time.
//! - `new`: the hosts of one part are learnt from in the first 70 % of the time, and questions are asked of the other
//!   hosts, never seen before, in the last 30 %, learning on from these.
//! - `alone`: as `later`, but each host knows of itself alone, as an agent does.
//!
//! `--round` says that hosts were only looked at so often: see `Record::smear`.
//!
//! Last it prints what the default model costs, on made-up peers: microseconds for an event and for a prediction.
//!
//! Exits 2 where a file cannot be read.

mod mixture;
mod replay;
mod speed;
mod table;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use idlewild_coordinator::hazard::record::{Record, TableError};
use replay::Way;

/// A table that is not one of ours.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    /// The file itself.
    #[error(transparent)]
    File(#[from] io::Error),
    /// What it holds.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// A file could not be read, or none was named.
const UNREADABLE: u8 = 2;

const USAGE: &str = "usage: hazard_scores [--round SECONDS] FILE...";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (mut out, mut problems) = (io::stdout().lock(), io::stderr().lock());
    let (round_s, files) = match words.split_first() {
        Some((flag, rest)) if flag == "--round" => match rest.split_first() {
            Some((seconds, files)) => (seconds.parse().ok(), files),
            None => (None, rest),
        },
        _ => (None, words.as_slice()),
    };
    if files.is_empty() || files.len() + 2 == words.len() && round_s.is_none() {
        let _ = writeln!(problems, "{USAGE}");
        return ExitCode::from(UNREADABLE);
    }
    let mut unread = 0;
    for file in files {
        match read(file) {
            Ok(mut record) => {
                if let Some(round_s) = round_s {
                    record.smear(round_s);
                }
                // A closed pipe on the other side of the output is no failure of the scores.
                let _ = print(&record, file, &mut out);
            }
            Err(why) => {
                unread += 1;
                let _ = writeln!(problems, "{file}: cannot be read: {why}");
            }
        }
    }
    let _ = speed::print(&mut out);
    if unread == 0 { ExitCode::SUCCESS } else { ExitCode::from(UNREADABLE) }
}

/// Reads a file, and the windows beside it where there are any.
fn read(file: &str) -> Result<Record, Unreadable> {
    let mut record = Record::parse(&std::fs::read_to_string(file)?)?;
    if let Some(windows) = windows_beside(file).filter(|path| Path::new(path).exists()) {
        record.add_zones(&std::fs::read_to_string(windows)?)?;
    }
    Ok(record)
}

fn windows_beside(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".csv")?;
    Some(match stem.strip_suffix(".train") {
        Some(name) => format!("{name}.windows.train.csv"),
        None => format!("{stem}.windows.csv"),
    })
}

fn print(record: &Record, file: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{file}: {} sessions of {} hosts", record.sessions.len(), record.hosts.len())?;
    for way in Way::ALL {
        let (questions, scored) = replay::all(record, way);
        table::print(way, &questions, &scored, out)?;
    }
    Ok(())
}
