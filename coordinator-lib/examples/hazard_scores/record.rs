//! A record of availability, read from its tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use thiserror::Error;

/// A table that is not one of ours.
#[derive(Debug, Error)]
pub(crate) enum Unreadable {
    /// The file itself.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A line that is not of the form that the header of this example's document says.
    #[error("line {0} is not of the form expected")]
    Line(usize),
}

/// A stretch of time in which a host was up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Up {
    /// Index of its host.
    pub(crate) host: usize,
    pub(crate) start_s: f64,
    pub(crate) end_s: f64,
    pub(crate) is_start_seen: bool,
    pub(crate) is_end_seen: bool,
}

/// All of a file.
#[derive(Debug)]
pub(crate) struct Record {
    /// Names, by index.
    pub(crate) hosts: Vec<String>,
    /// Hours that a host's clock is ahead; none if unknown.
    pub(crate) ahead_hours: Vec<Option<f64>>,
    pub(crate) sessions: Vec<Up>,
}

impl Record {
    /// Spreads what was only seen once every `round_s` seconds over the round before it was seen, each end and each
    /// beginning by a part of its own that the place in the file decides.
    ///
    /// All lengths of such a record are multiples of a round, which a step curve would learn and a clock never shows.
    pub(crate) fn smear(&mut self, round_s: f64) {
        let mut draw = 0x9e37_79b9_7f4a_7c15_u64;
        let mut part_s = || {
            // xorshift64: the same file gives the same parts.
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            (draw >> 11) as f64 / (1_u64 << 53) as f64 * round_s
        };
        let mut before: Option<Up> = None;
        for up in &mut self.sessions {
            let earliest_s =
                before.filter(|before| before.host == up.host).map_or(f64::NEG_INFINITY, |before| before.end_s);
            if up.is_end_seen {
                up.end_s = (up.end_s - part_s()).max(up.start_s);
            }
            if up.is_start_seen {
                up.start_s = (up.start_s - part_s()).max(earliest_s);
            }
            before = Some(*up);
        }
    }

    /// Reads a file, and the windows beside it where there are any.
    pub(crate) fn read(file: &str) -> Result<Self, Unreadable> {
        let mut record = Self { hosts: Vec::new(), ahead_hours: Vec::new(), sessions: Vec::new() };
        let mut index: BTreeMap<String, usize> = BTreeMap::new();
        for (line, row) in rows(&fs::read_to_string(file)?) {
            let session = record.session(&row, &mut index).ok_or(Unreadable::Line(line))?;
            record.sessions.push(session);
        }
        if let Some(windows) = windows_beside(file).filter(|path| Path::new(path).exists()) {
            for (line, row) in rows(&fs::read_to_string(windows)?) {
                let [host, _, _, ahead] = row.as_slice() else { return Err(Unreadable::Line(line)) };
                if let Some(&host) = index.get(*host) {
                    record.ahead_hours[host] = ahead.parse().ok();
                }
            }
        }
        Ok(record)
    }

    fn session(&mut self, row: &[&str], index: &mut BTreeMap<String, usize>) -> Option<Up> {
        let [name, start, end, censored] = row else { return None };
        let censored: u8 = censored.parse().ok()?;
        let host = *index.entry((*name).to_owned()).or_insert_with(|| {
            self.hosts.push((*name).to_owned());
            self.ahead_hours.push(None);
            self.hosts.len() - 1
        });
        let (start_s, end_s) = (start.parse().ok()?, end.parse().ok()?);
        Some(Up { host, start_s, end_s, is_start_seen: censored & 2 == 0, is_end_seen: censored & 1 == 0 })
    }

    /// When the first session begins and the last ends, in seconds.
    pub(crate) fn span_s(&self) -> (f64, f64) {
        let starts = self.sessions.iter().map(|up| up.start_s);
        let ends = self.sessions.iter().map(|up| up.end_s);
        (starts.fold(f64::INFINITY, f64::min), ends.fold(f64::NEG_INFINITY, f64::max))
    }
}

/// The rows below the header, with their numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let rows = text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty());
    rows.map(|(number, line)| (number + 1, line.split(',').map(str::trim).collect()))
}

fn windows_beside(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".csv")?;
    Some(match stem.strip_suffix(".train") {
        Some(name) => format!("{name}.windows.train.csv"),
        None => format!("{stem}.windows.csv"),
    })
}
