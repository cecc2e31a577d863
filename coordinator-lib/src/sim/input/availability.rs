//! `host,start_s,end_s,censored`: when hosts were there.

use std::collections::BTreeMap;

use super::{InputError, Problem, RowFault};
use crate::hazard::record::{Column, Row, Table, censored_of};
use crate::sim::random::{Draws, Purpose};
use crate::sim::scenario::{Departure, Stay};

/// What a table tells: hosts by their first appearance, and when each was there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Availability {
    /// Names.
    pub hosts: Vec<String>,
    /// By host: in order, without overlap.
    pub stays: Vec<Vec<Stay>>,
}

impl Availability {
    /// When the last stay ends; none without one.
    pub fn end_s(&self) -> Option<f64> {
        self.stays.iter().flatten().map(|stay| stay.end_s).max_by(f64::total_cmp)
    }

    /// A stretch of the record, beginning at `from_s` and that long, for `count` hosts that `seed` draws among those that
    /// are there in it. Times are of the run from then on: what came before is kept, with times below 0.
    #[must_use]
    pub fn cut(&self, from_s: f64, length_s: f64, count: usize, seed: u64) -> Self {
        let is_there =
            |stays: &[Stay]| stays.iter().any(|stay| stay.end_s > from_s && stay.start_s < from_s + length_s);
        let mut there: Vec<usize> = (0..self.hosts.len()).filter(|host| is_there(&self.stays[*host])).collect();
        let mut draws = Draws::new(seed, Purpose::Peers, 0);
        for at in 0..there.len().min(count) {
            let other = at + (draws.part() * (there.len() - at) as f64) as usize;
            there.swap(at, other);
        }
        there.truncate(count);
        let moved = |stay: &Stay| Stay { start_s: stay.start_s - from_s, end_s: stay.end_s - from_s, ..*stay };
        let until_s = |stay: &Stay| stay.start_s < length_s;
        Self {
            hosts: there.iter().map(|host| self.hosts[*host].clone()).collect(),
            stays: there.iter().map(|host| self.stays[*host].iter().map(moved).filter(until_s).collect()).collect(),
        }
    }
}

/// Reads a table of sessions: inside a host in the order of time and without overlap, hosts in any order. `file` is its
/// name in errors.
///
/// # Errors
/// The first row that is no session, is out of order or overlaps; a column that is missing; no row at all.
pub fn parse_availability(file: &str, text: &str) -> Result<Availability, InputError> {
    read(text).map_err(|problem| problem.in_file(file))
}

fn read(text: &str) -> Result<Availability, Problem> {
    let table = Table::new(text);
    let columns = [table.need("start_s")?, table.need("end_s")?];
    let (host, censored) = (table.need("host")?, table.find("censored"));
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known = Availability::default();
    let mut lines: Vec<usize> = Vec::new();
    for row in table.rows()? {
        let name = row.needed(host)?;
        let at = *index.entry(name).or_insert(known.hosts.len());
        if at == known.hosts.len() {
            known.hosts.push(name.to_owned());
            known.stays.push(Vec::new());
            lines.push(row.line);
        }
        let stay = stay(&row, columns, censored)?;
        follows(known.stays[at].last(), &stay, &row, lines[at])?;
        known.stays[at].push(stay);
        lines[at] = row.line;
    }
    if known.hosts.is_empty() { Err(Problem::Empty) } else { Ok(known) }
}

fn stay(row: &Row<'_>, [start, end]: [Column; 2], censored: Option<Column>) -> Result<Stay, Problem> {
    let (start_s, end_s) = (row.number(start)?, row.number(end)?);
    if start_s < 0.0 {
        return Err(Problem::Negative { line: row.line, column: "start_s" });
    }
    if end_s < start_s {
        return Err(Problem::from((row.line, RowFault::Backwards)));
    }
    let is_end_seen = censored_of(row, censored)? & 1 == 0;
    Ok(Stay { start_s, end_s, is_end_seen, departure: Departure::UNKNOWN })
}

/// Whether `stay` comes after the one `before` it, which stands in line `before_line`.
fn follows(before: Option<&Stay>, stay: &Stay, row: &Row<'_>, before_line: usize) -> Result<(), Problem> {
    match before {
        Some(before) if stay.start_s < before.start_s => Err(Problem::Unsorted { line: row.line }),
        Some(before) if stay.start_s < before.end_s => Err(Problem::from((row.line, RowFault::Overlap(before_line)))),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::record::TableError;

    const HEAD: &str = "host,start_s,end_s,censored\n";

    #[test]
    fn sessions_are_read_by_host() {
        let table = parse_availability("a.csv", &format!("{HEAD}b,0,5,2\na,1,4,0\nb,5,9,1\n")).unwrap();
        assert_eq!(table.hosts, ["b", "a"]);
        let ends: Vec<Vec<(f64, bool)>> =
            table.stays.iter().map(|stays| stays.iter().map(|stay| (stay.end_s, stay.is_end_seen)).collect()).collect();
        assert_eq!(ends, [vec![(5.0, true), (9.0, false)], vec![(4.0, true)]]);
        assert_eq!(table.end_s(), Some(9.0));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file_and_line() {
        for (rows, expected) in [
            ("a,-1,2,0", "a.csv: line 2: start_s is negative"),
            ("a,3,2,0", "a.csv: line 2: it ends before it begins"),
            ("a,1,2,0\nb,0,9,0\na,1.5,3,0", "a.csv: line 4: it overlaps the session of line 2"),
            ("a,5,6,0\na,1,2,0", "a.csv: line 3: it begins before the row ahead of it; sort the rows by time"),
            ("a,1,2", "a.csv: line 2: it has not as many fields as line 1"),
            ("a,1,nan,0", "a.csv: line 2: end_s is not a number"),
            (",1,2,0", "a.csv: line 2: host is empty"),
            ("a,1,2,7", "a.csv: line 2: censored must be 0, 1, 2 or 3"),
            ("", "a.csv: it has no rows below the line that names the columns"),
        ] {
            let error = parse_availability("a.csv", &format!("{HEAD}{rows}\n")).unwrap_err();
            assert_eq!(error.to_string(), expected, "{rows}");
        }
        let missing = parse_availability("a.csv", "host,end_s\n").unwrap_err();
        assert_eq!(missing.problem, Problem::Table(TableError::NoColumn("start_s")));
    }

    #[test]
    fn a_stretch_of_a_record_is_cut_out_for_those_that_are_there() {
        let table = parse_availability("a", &format!("{HEAD}a,0,50,0\nb,100,200,0\nc,0,10,0\nc,120,130,1\n")).unwrap();
        let cut = table.cut(100.0, 50.0, 9, 1);
        let mut hosts = cut.hosts.clone();
        hosts.sort();
        assert_eq!(hosts, ["b", "c"]);
        let of_c = &cut.stays[cut.hosts.iter().position(|host| host == "c").unwrap()];
        assert_eq!(of_c.iter().map(|stay| stay.start_s).collect::<Vec<_>>(), [-100.0, 20.0]);
        assert_eq!(table.cut(100.0, 50.0, 1, 1).hosts.len(), 1);
        assert_eq!(table.cut(100.0, 50.0, 1, 5), table.cut(100.0, 50.0, 1, 5));
    }
}
