//! Records of availability: when which host was there, read from tables.
//!
//! ```text
//! host,start_s,end_s,censored          a session each; seconds of any one clock
//! host,obs_start_s,obs_end_s,tz_hours  when a host was watched, of which only its time zone is read here
//! ```
//!
//! `censored` is a sum: 1 where the end was not seen (right-censored), 2 where the beginning was not (left-truncated);
//! without the column both were seen. Deliberately absent: files.

mod columns;

use std::collections::BTreeMap;

pub use columns::{Column, Fault, Row, Table, TableError};

/// A stretch of time in which a host was there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Up {
    /// Index of its host.
    pub host: usize,
    /// When it began, or was first seen.
    pub start_s: f64,
    /// When it ended, or was last seen.
    pub end_s: f64,
    /// Whether its beginning was seen.
    pub is_start_seen: bool,
    /// Whether its end was seen.
    pub is_end_seen: bool,
}

/// All that a table tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// Names, by index.
    pub hosts: Vec<String>,
    /// Hours that a host's clock is ahead; none if unknown.
    pub ahead_hours: Vec<Option<f64>>,
    /// By host, then by time; those of a host do not overlap.
    pub sessions: Vec<Up>,
    index: BTreeMap<String, usize>,
}

impl Record {
    /// Reads a table of sessions, in any order.
    ///
    /// # Errors
    /// A column that is missing, or the first line that is no session or overlaps another of its host.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let table = Table::new(text);
        let columns = [table.need("host")?, table.need("start_s")?, table.need("end_s")?];
        let (censored, zone) = (table.find("censored"), table.find("tz_hours"));
        let mut record = Self::default();
        let mut sessions: Vec<(usize, Up)> = Vec::new();
        for row in table.rows()? {
            let up = record.session(&row, columns, censored)?;
            if let Some(zone) = zone.filter(|zone| row.text(*zone).is_some()) {
                record.ahead_hours[up.host] = Some(row.number(zone)?);
            }
            sessions.push((row.line, up));
        }
        sessions.sort_by(|(_, a), (_, b)| a.host.cmp(&b.host).then(a.start_s.total_cmp(&b.start_s)));
        for pair in sessions.windows(2) {
            let [(earlier, before), (later, up)] = pair else { continue };
            if before.host == up.host && before.end_s > up.start_s {
                return Err(Fault::Overlap(*earlier).at(*later));
            }
        }
        record.sessions = sessions.into_iter().map(|(_, up)| up).collect();
        Ok(record)
    }

    fn session(&mut self, row: &Row<'_>, columns: [Column; 3], censored: Option<Column>) -> Result<Up, TableError> {
        let [host, start, end] = columns;
        let (start_s, end_s) = (row.number(start)?, row.number(end)?);
        if end_s < start_s {
            return Err(Fault::Backwards.at(row.line));
        }
        let unseen = censored_of(row, censored)?;
        let host = self.host(row.needed(host)?);
        Ok(Up { host, start_s, end_s, is_start_seen: unseen & 2 == 0, is_end_seen: unseen & 1 == 0 })
    }

    /// The index of a host by its name, which is new from now on if it was not known.
    pub fn host(&mut self, name: &str) -> usize {
        if let Some(host) = self.index.get(name) {
            return *host;
        }
        let host = self.hosts.len();
        self.index.insert(name.to_owned(), host);
        self.hosts.push(name.to_owned());
        self.ahead_hours.push(None);
        host
    }

    /// Reads a table of windows for the time zones of the hosts. Hosts without a session are left out.
    ///
    /// # Errors
    /// A column that is missing, or the first time zone that is no number.
    pub fn add_zones(&mut self, text: &str) -> Result<(), TableError> {
        let table = Table::new(text);
        let (host, zone) = (table.need("host")?, table.need("tz_hours")?);
        for row in table.rows()? {
            let known = self.index.get(row.needed(host)?).copied();
            if let Some(host) = known.filter(|_| row.text(zone).is_some()) {
                self.ahead_hours[host] = Some(row.number(zone)?);
            }
        }
        Ok(())
    }

    /// Spreads what was only seen once every `round_s` seconds over the round before it was seen, each end and each
    /// beginning by a part of its own that the place in the record decides.
    ///
    /// All lengths of such a record are multiples of a round, which a step curve would learn and a clock never shows.
    pub fn smear(&mut self, round_s: f64) {
        let mut draw = 0x9e37_79b9_7f4a_7c15_u64;
        let mut part_s = || {
            // xorshift64: the same record gives the same parts.
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

    /// When the first session begins and the last ends, in seconds; none without sessions.
    pub fn span_s(&self) -> Option<(f64, f64)> {
        let first_s = self.sessions.iter().map(|up| up.start_s).min_by(f64::total_cmp)?;
        let last_s = self.sessions.iter().map(|up| up.end_s).max_by(f64::total_cmp)?;
        Some((first_s, last_s))
    }
}

/// What `censored` says in a row; 0 without the column, or where it is empty.
///
/// # Errors
/// Where it says what it cannot.
pub fn censored_of(row: &Row<'_>, censored: Option<Column>) -> Result<u8, TableError> {
    let Some(text) = censored.and_then(|column| row.text(column)) else { return Ok(0) };
    text.parse().ok().filter(|unseen| *unseen <= 3_u8).ok_or(Fault::Censored.at(row.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read_in_any_order_and_sorted() {
        let mut record =
            Record::parse("host,extra,start_s,end_s,censored\nb,x,5,6,1\na,y,3.5,4,2\na,,1,3.5,\n").unwrap();
        let up =
            |host, start_s, end_s, is_start_seen, is_end_seen| Up { host, start_s, end_s, is_start_seen, is_end_seen };
        assert_eq!(
            record.sessions,
            [up(0, 5.0, 6.0, true, false), up(1, 1.0, 3.5, true, true), up(1, 3.5, 4.0, false, true)]
        );
        assert_eq!(record.span_s(), Some((1.0, 6.0)));
        record.add_zones("host,obs_start_s,obs_end_s,tz_hours\na,0,9,2\nb,0,9,\nc,0,9,5\n").unwrap();
        assert_eq!((record.hosts, record.ahead_hours), (vec!["b".to_owned(), "a".to_owned()], vec![None, Some(2.0)]));
    }

    #[test]
    fn what_is_no_session_is_named_with_its_line() {
        for (rows, expected) in [
            ("a,2,1,0", Fault::Backwards.at(2)),
            ("a,1,2,4", Fault::Censored.at(2)),
            ("a,1,2,0\n,3,4,0", Fault::Empty("host").at(3)),
            ("a,1,2,0\na,x,4,0", Fault::Number("start_s").at(3)),
            ("a,5,9,0\nb,1,9,0\na,1,6,0", Fault::Overlap(4).at(2)),
        ] {
            assert_eq!(Record::parse(&format!("host,start_s,end_s,censored\n{rows}\n")), Err(expected), "{rows}");
        }
        assert_eq!(Record::parse("host,end_s\n"), Err(TableError::NoColumn("start_s")));
        assert_eq!(Record::default().span_s(), None);
    }

    #[test]
    fn a_record_seen_in_rounds_is_spread_over_them_and_keeps_its_order() {
        let rows: Vec<String> = (0..50).map(|n| format!("a,{},{},0\n", n * 100, n * 100 + 100)).collect();
        let rows = rows.concat();
        let seen = Record::parse(&format!("host,start_s,end_s,censored\n{rows}")).unwrap();
        let mut smeared = seen.clone();
        smeared.smear(60.0);
        assert_ne!(smeared, seen);
        assert!(smeared.sessions.windows(2).all(|pair| pair[0].end_s <= pair[1].start_s));
        assert!(smeared.sessions.iter().zip(&seen.sessions).all(|(a, b)| {
            (0.0..=60.0).contains(&(b.end_s - a.end_s)) && (0.0..=60.0).contains(&(b.start_s - a.start_s))
        }));
    }
}
