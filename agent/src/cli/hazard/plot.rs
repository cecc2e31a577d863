//! A survival curve in characters.

use std::io::IsTerminal;

use crate::api::wire::CurvePoint;

/// Columns of the axis' labels.
const LABELS: usize = 7;

/// Columns of a plot: more show no more, fewer show nothing.
const WIDTHS: [usize; 2] = [30, 100];

/// Where nobody says how wide the terminal is.
const USUAL_WIDTH: usize = 80;

const ROWS: usize = 9;

/// An eighth of a row each.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is marked on the time axis.
const MARKS: [(f64, &str); 6] =
    [(5.0, "5s"), (60.0, "1m"), (600.0, "10m"), (3600.0, "1h"), (21_600.0, "6h"), (86_400.0, "24h")];

/// How a plot looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Columns.
    pub(super) width: usize,
    /// Whether colours are wanted.
    pub(super) is_coloured: bool,
}

impl Look {
    /// As wide as the terminal; coloured where stdout is one, unless `NO_COLOR` is set to anything but nothing.
    pub(super) fn of_process() -> Self {
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let columns = || std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
        let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).or_else(columns);
        Self { width: width.unwrap_or(USUAL_WIDTH), is_coloured: std::io::stdout().is_terminal() && !forbidden }
    }
}

/// The probability of staying over the logarithm of time.
pub(super) fn survival(curve: &[CurvePoint], look: Look) -> Vec<String> {
    let columns = look.width.clamp(WIDTHS[0], WIDTHS[1]) - LABELS;
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return Vec::new() };
    let span = (last.t_s / first.t_s).ln();
    let heights: Vec<usize> = (0..columns)
        .map(|column| {
            let t_s = first.t_s * (span * column as f64 / (columns - 1) as f64).exp();
            (stays(curve, t_s) * (ROWS * (BLOCKS.len() - 1)) as f64).round() as usize
        })
        .collect();
    let mut lines = vec!["stays".to_owned()];
    for row in (0..ROWS).rev() {
        let label = match row {
            8 => "100 %",
            4 => " 50 %",
            0 => "  0 %",
            _ => "",
        };
        let eighths = |height: usize| height.saturating_sub(row * (BLOCKS.len() - 1)).min(BLOCKS.len() - 1);
        let cells: String = heights.iter().map(|height| BLOCKS[eighths(*height)]).collect();
        lines.push(format!("{label:>5} {}", coloured(cells.trim_end(), look)));
    }
    lines.push(axis(columns, first.t_s, span));
    lines
}

fn coloured(cells: &str, look: Look) -> String {
    if look.is_coloured && !cells.is_empty() { format!("│\x1b[36m{cells}\x1b[0m") } else { format!("│{cells}") }
}

fn axis(columns: usize, first_s: f64, span: f64) -> String {
    let mut axis = vec![' '; LABELS + columns];
    // From the end, which is always marked, as far as there is room.
    let mut free = axis.len();
    for (t_s, mark) in MARKS.into_iter().rev() {
        let at = LABELS + ((t_s / first_s).ln() / span * (columns - 1) as f64).round() as usize;
        let at = at.min(axis.len() - mark.len());
        if at + mark.len() <= free {
            axis[at..].iter_mut().zip(mark.chars()).for_each(|(cell, c)| *cell = c);
            free = at.saturating_sub(1);
        }
    }
    axis.into_iter().collect::<String>().trim_end().to_owned()
}

/// The curve between its points, at which the hazard is constant.
fn stays(curve: &[CurvePoint], t_s: f64) -> f64 {
    let after = curve.partition_point(|point| point.t_s < t_s);
    let before = after.checked_sub(1).and_then(|at| curve.get(at)).copied();
    let before = before.unwrap_or(CurvePoint { t_s: 0.0, stays: 1.0 });
    let Some(after) = curve.get(after) else { return before.stays };
    let part = (t_s - before.t_s) / (after.t_s - before.t_s).max(f64::MIN_POSITIVE);
    let cumulative = |point: CurvePoint| -point.stays.max(1e-12).ln();
    (-(cumulative(before) + part * (cumulative(*after) - cumulative(before)))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rate: f64) -> Vec<CurvePoint> {
        idlewild_protocol::HORIZONS_S.iter().map(|&t_s| CurvePoint { t_s, stays: (-rate * t_s).exp() }).collect()
    }

    fn plain(width: usize) -> Look {
        Look { width, is_coloured: false }
    }

    #[test]
    fn a_plot_is_no_wider_than_the_terminal() {
        for width in [30, 47, 80, 100] {
            let lines = survival(&curve(1e-3), plain(width));
            let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width && widest > width - 8, "{widest} of {width}\n{}", lines.join("\n"));
            assert!(lines.last().unwrap().ends_with("24h"));
        }
        assert!(survival(&curve(1e-3), plain(5000)).iter().all(|line| line.chars().count() <= WIDTHS[1]));
    }

    #[test]
    fn columns_are_as_high_as_the_curve() {
        let lines = survival(&curve(1e-9), plain(80));
        assert!(lines[1].ends_with(&"█".repeat(73)), "{}", lines[1]);
        let lines = survival(&curve(10.0), plain(80));
        assert!(lines[1..10].iter().all(|line| !line.contains('█')), "{lines:?}");
        // Half of those who leave at 1/1000 a second are gone after 693 s.
        assert!((stays(&curve(1e-3), 693.1) - 0.5).abs() < 1e-3);
        assert_eq!(survival(&[], plain(80)), Vec::<String>::new());
    }

    #[test]
    fn colours_are_only_where_they_are_wanted() {
        let look = Look { width: 60, is_coloured: true };
        let is_coloured = |lines: Vec<String>| lines.iter().any(|line| line.contains('\x1b'));
        assert!(is_coloured(survival(&curve(1e-4), look)));
        assert!(!is_coloured(survival(&curve(1e-4), plain(60))));
    }
}
