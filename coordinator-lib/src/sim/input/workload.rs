//! `arrival_s,prompt_tokens,output_tokens`: what was asked, and when.

use super::{InputError, Problem};
use crate::hazard::record::{Column, Row, Table};
use crate::sim::scenario::Arrival;

/// The most tokens that a prompt or an answer is believed to have.
const MOST_TOKENS: u32 = 10_000_000;

/// Reads a table of requests, in the order of time. `file` is its name in errors.
///
/// # Errors
/// The first row that is no request or is out of order; a column that is missing; no row at all.
pub fn parse_workload(file: &str, text: &str) -> Result<Vec<Arrival>, InputError> {
    read(text).map_err(|problem| problem.in_file(file))
}

fn read(text: &str) -> Result<Vec<Arrival>, Problem> {
    let table = Table::new(text);
    let (at, prompt, output) = (table.need("arrival_s")?, table.need("prompt_tokens")?, table.need("output_tokens")?);
    let mut arrivals: Vec<Arrival> = Vec::new();
    for row in table.rows()? {
        let at_s = row.number(at)?;
        if at_s < 0.0 {
            return Err(Problem::Negative { line: row.line, column: "arrival_s" });
        }
        if arrivals.last().is_some_and(|before| at_s < before.at_s) {
            return Err(Problem::Unsorted { line: row.line });
        }
        let (prompt_tokens, output_tokens) =
            (tokens(&row, prompt, "prompt_tokens")?, tokens(&row, output, "output_tokens")?);
        arrivals.push(Arrival { at_s, prompt_tokens, output_tokens, estimate_tokens: None });
    }
    if arrivals.is_empty() { Err(Problem::Empty) } else { Ok(arrivals) }
}

fn tokens(row: &Row<'_>, column: Column, name: &'static str) -> Result<u32, Problem> {
    let number = row.number(column)?;
    if number < 0.0 {
        return Err(Problem::Negative { line: row.line, column: name });
    }
    let is_count = number.fract() == 0.0 && number >= 1.0 && number <= f64::from(MOST_TOKENS);
    if is_count { Ok(number as u32) } else { Err(Problem::Tokens { line: row.line, column: name, most: MOST_TOKENS }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "arrival_s,prompt_tokens,output_tokens\n";

    #[test]
    fn requests_are_read_in_order() {
        let arrivals = parse_workload("w", &format!("{HEAD}0,10,20\n0,11,1\n1.5,12,3\n")).unwrap();
        let read: Vec<(f64, u32, u32)> =
            arrivals.iter().map(|arrival| (arrival.at_s, arrival.prompt_tokens, arrival.output_tokens)).collect();
        assert_eq!(read, [(0.0, 10, 20), (0.0, 11, 1), (1.5, 12, 3)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file_and_line() {
        for (rows, expected) in [
            ("5,1,1\n4,1,1", "w: line 3: it begins before the row ahead of it; sort the rows by time"),
            ("-1,1,1", "w: line 2: arrival_s is negative"),
            ("1,-1,1", "w: line 2: prompt_tokens is negative"),
            ("1,1,0", "w: line 2: output_tokens must be a whole number of tokens from 1 to 10000000"),
            ("1,1.5,1", "w: line 2: prompt_tokens must be a whole number of tokens from 1 to 10000000"),
            ("1,1,x", "w: line 2: output_tokens is not a number"),
            ("1,1", "w: line 2: it has not as many fields as line 1"),
            ("", "w: it has no rows below the line that names the columns"),
        ] {
            assert_eq!(parse_workload("w", &format!("{HEAD}{rows}\n")).unwrap_err().to_string(), expected, "{rows}");
        }
    }
}
