//! Numbers as people read them.

/// Bytes, in decimal units.
pub(super) fn bytes(count: u64) -> String {
    scaled(count as f64, "B")
}

/// Bytes a second.
pub(super) fn rate(bytes_per_s: Option<u64>) -> String {
    bytes_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", bytes(rate)))
}

fn scaled(mut value: f64, unit: &str) -> String {
    let mut prefix = "";
    for next in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    let digits = usize::from(value < 10.0 && !prefix.is_empty());
    format!("{value:.digits$} {prefix}{unit}")
}

/// A span of seconds, in its largest unit.
pub(super) fn seconds(s: u64) -> String {
    match s {
        0..=119 => format!("{s} s"),
        120..=7199 => format!("{} min", s / 60),
        7200..=172_799 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

/// A number of things: `1 peer`, `2 peers`.
pub(super) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// A probability.
pub(super) fn percent(p: Option<f64>) -> String {
    p.map_or_else(|| "-".to_owned(), |p| format!("{:.0} %", p * 100.0))
}

/// Rows with aligned columns; the last column is not padded.
pub(super) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let padded = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_two_significant_digits_and_a_unit() {
        for (count, expected) in
            [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (99_000_000, "99 MB"), (1_000_000_000, "1.0 GB")]
        {
            assert_eq!(bytes(count), expected);
        }
        assert_eq!((rate(None).as_str(), rate(Some(12_000_000)).as_str()), ("-", "12 MB/s"));
        for (s, expected) in [(5, "5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")] {
            assert_eq!(seconds(s), expected);
        }
        assert_eq!(percent(Some(0.987)), "99 %");
        assert_eq!([count(0, "peer"), count(1, "peer"), count(2, "peer")], ["0 peers", "1 peer", "2 peers"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(table(&rows), ["a    bb", "ccc  d"]);
    }
}
