//! Lines from somebody who may not mean well: each of bounded length, and nothing else is kept.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of the longest line. A word within its bounds has half of that.
pub(in crate::owner) const LINE_MAX: usize = 8192;

/// Bytes that are read at once.
const CHUNK: usize = 1024;

/// Why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) enum NoLine {
    /// The other side has ended, or the connection broke, whether or not in the middle of a line.
    Ended,
    /// It is longer than any may be.
    TooLong,
}

/// What is read from one side of a connection.
#[derive(Debug)]
pub(in crate::owner) struct Lines<R> {
    from: R,
    partial: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads from there.
    pub(in crate::owner) fn new(from: R) -> Self {
        Self { from, partial: Vec::new() }
    }

    /// The next line, without its end. Dropping the future loses nothing.
    pub(in crate::owner) async fn next(&mut self) -> Result<Vec<u8>, NoLine> {
        loop {
            if let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let rest = self.partial.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.partial, rest);
                line.truncate(end);
                return Ok(line);
            }
            if self.partial.len() > LINE_MAX {
                return Err(NoLine::TooLong);
            }
            let mut chunk = [0; CHUNK];
            match self.from.read(&mut chunk).await {
                Ok(0) | Err(_) => return Err(NoLine::Ended),
                Ok(read) => self.partial.extend_from_slice(&chunk[..read]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_one_by_one_and_one_without_an_end_is_none() {
        let mut lines = Lines::new(&b"one\n\ntwo and\nhalf"[..]);
        for expected in ["one", "", "two and"] {
            assert_eq!(lines.next().await.unwrap(), expected.as_bytes());
        }
        assert!(matches!(lines.next().await, Err(NoLine::Ended)));
    }

    #[tokio::test]
    async fn a_line_that_never_ends_costs_no_more_than_the_longest() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'));
        assert!(matches!(lines.next().await, Err(NoLine::TooLong)));
        assert!(lines.partial.len() <= LINE_MAX + CHUNK, "{}", lines.partial.len());
        assert!(lines.partial.capacity() <= 4 * LINE_MAX, "{}", lines.partial.capacity());
        // The longest is read.
        let longest = [vec![b'y'; LINE_MAX], vec![b'\n']].concat();
        assert_eq!(Lines::new(longest.as_slice()).next().await.unwrap().len(), LINE_MAX);
    }
}
