//! Tables with a line that names their columns: which of them is which, and where a line is wrong.

use core::fmt;

use thiserror::Error;

/// A table that cannot be used. Nothing of it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TableError {
    /// The first line does not name a column that is needed.
    #[error("line 1 does not name the column {0}; it must name all columns, separated by commas")]
    NoColumn(&'static str),
    /// A line is wrong.
    #[error("line {line}: {fault}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What can be wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Fault {
    /// It has another number of fields than the first line.
    #[error("it has not as many fields as line 1")]
    Fields,
    /// A field that must not be empty is.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A field is no finite number.
    #[error("{0} is not a number")]
    Number(&'static str),
    /// `censored` is no sum of 1 (end not seen) and 2 (beginning not seen).
    #[error("censored must be 0, 1, 2 or 3")]
    Censored,
    /// The session ends before it begins.
    #[error("it ends before it begins")]
    Backwards,
    /// The session begins before another of the same host has ended.
    #[error("it overlaps the session of line {0}")]
    Overlap(usize),
}

impl Fault {
    /// The error of this fault at a line.
    pub fn at(self, line: usize) -> TableError {
        TableError::Line { line, fault: self }
    }
}

/// A line below the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its number, from 1.
    pub line: usize,
    fields: Vec<&'a str>,
}

/// Which field of a row is which column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    name: &'static str,
    at: usize,
}

/// A table: its columns may stand in any order, and those that nobody asks for are left alone.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    names: Vec<&'a str>,
    text: &'a str,
}

impl<'a> Table<'a> {
    /// A table of this text.
    pub fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let names = text.lines().next().map(|line| line.split(',').map(bare).collect()).unwrap_or_default();
        Self { names, text }
    }

    /// The column of this name, if there is one.
    pub fn find(&self, name: &'static str) -> Option<Column> {
        self.names.iter().position(|found| *found == name).map(|at| Column { name, at })
    }

    /// The column of this name.
    ///
    /// # Errors
    /// Where the first line does not name it.
    pub fn need(&self, name: &'static str) -> Result<Column, TableError> {
        self.find(name).ok_or(TableError::NoColumn(name))
    }

    /// The lines below the first that are not empty.
    ///
    /// # Errors
    /// The first line that has another number of fields than the first.
    pub fn rows(&self) -> Result<Vec<Row<'a>>, TableError> {
        let lines = self.text.lines().enumerate().skip(1).filter(|(_, text)| !text.trim().is_empty());
        lines.map(|(index, text)| self.row(index + 1, text)).collect()
    }

    fn row(&self, line: usize, text: &'a str) -> Result<Row<'a>, TableError> {
        let fields: Vec<&str> = text.split(',').map(bare).collect();
        if fields.len() == self.names.len() { Ok(Row { line, fields }) } else { Err(Fault::Fields.at(line)) }
    }
}

impl<'a> Row<'a> {
    /// What stands in a column; none where nothing does.
    pub fn text(&self, column: Column) -> Option<&'a str> {
        self.fields.get(column.at).copied().filter(|text| !text.is_empty())
    }

    /// The same where something must.
    ///
    /// # Errors
    /// Where nothing does.
    pub fn needed(&self, column: Column) -> Result<&'a str, TableError> {
        self.text(column).ok_or(Fault::Empty(column.name).at(self.line))
    }

    /// The finite number in a column.
    ///
    /// # Errors
    /// Where there is none.
    pub fn number(&self, column: Column) -> Result<f64, TableError> {
        let number = self.needed(column)?.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or(Fault::Number(column.name).at(self.line))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A field without the blanks and the quotes around it.
fn bare(field: &str) -> &str {
    let field = field.trim();
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_by_their_names_and_strange_ones_are_left_alone() {
        let table = Table::new("\u{feff}note, \"end\" ,start\r\nx,2,1\r\n\r\ny,,3\r\n");
        let (start, end) = (table.need("start").unwrap(), table.need("end").unwrap());
        let rows = table.rows().unwrap();
        assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 4]);
        assert_eq!((rows[0].number(start), rows[0].number(end)), (Ok(1.0), Ok(2.0)));
        assert_eq!((rows[1].text(end), rows[1].number(end)), (None, Err(Fault::Empty("end").at(4))));
        assert_eq!(table.need("host"), Err(TableError::NoColumn("host")));
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        assert_eq!(Table::new("a,b\n1,2\n3\n").rows(), Err(Fault::Fields.at(3)));
        let table = Table::new("a\nNaN\n1e400\nten\n");
        let column = table.need("a").unwrap();
        for row in table.rows().unwrap() {
            assert_eq!(row.number(column), Err(Fault::Number("a").at(row.line)));
        }
        assert_eq!(Fault::Number("a").at(7).to_string(), "line 7: a is not a number");
    }

    #[test]
    fn an_empty_text_is_a_table_without_columns() {
        assert_eq!(Table::new("").need("host"), Err(TableError::NoColumn("host")));
        assert_eq!(Table::new("host\n").rows(), Ok(Vec::new()));
    }
}
