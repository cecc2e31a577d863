//! The only place that writes to the terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Writes a command's output: results to stdout, words about them to stderr.
pub struct Printer {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    is_coloured: bool,
}

impl std::fmt::Debug for Printer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Printer").field("is_coloured", &self.is_coloured).finish_non_exhaustive()
    }
}

impl Printer {
    /// On the process's stdout and stderr.
    pub fn of_process() -> Self {
        Self::new(Box::new(io::stdout()), Box::new(io::stderr()), Self::may_be_coloured())
    }

    /// Whether words on stderr are coloured: where it is a terminal, unless `NO_COLOR` is set to anything but nothing
    /// (no-color.org).
    pub(super) fn may_be_coloured() -> bool {
        Self::is_watched() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    /// On any two writers.
    pub fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, is_coloured: bool) -> Self {
        Self { out, err, is_coloured }
    }

    /// A piece of a result, without a line's end, shown at once.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// A line of a result.
    pub fn line(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// A result for programs, as indented JSON.
    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        self.line(text)
    }

    /// Words about what happens.
    pub fn note(&mut self, note: impl Display) {
        self.say("2", "", note);
    }

    /// What a person should know although the command goes on.
    pub fn warning(&mut self, warning: impl Display) {
        self.say("33", "warning: ", warning);
    }

    /// Why the command failed.
    pub fn error(&mut self, error: impl Display) {
        self.say("31", "error: ", error);
    }

    /// What to do about it.
    pub fn hint(&mut self, hint: impl Display) {
        self.say("36", "hint: ", hint);
    }

    /// Shows what is being asked for, on the same line as the answer.
    pub fn prompt(&mut self, prompt: impl Display) {
        let _ = write!(self.err, "{prompt}");
        let _ = self.err.flush();
    }

    /// Whether a person looks on: words that change and vanish make sense.
    pub fn is_watched() -> bool {
        io::stderr().is_terminal() && !is_dumb()
    }

    /// Shows words in the place of those that were shown before.
    pub fn progress(&mut self, words: impl Display) {
        self.prompt(format!("\r{words}\x1b[K"));
    }

    /// Takes such words away.
    pub fn clear_progress(&mut self) {
        self.prompt("\r\x1b[K");
    }

    /// Nobody can be told when stderr is gone; the exit code says the rest.
    fn say(&mut self, colour: &str, label: &str, text: impl Display) {
        let _ = match (self.is_coloured, label.is_empty()) {
            (false, _) => writeln!(self.err, "{label}{text}"),
            (true, true) => writeln!(self.err, "\x1b[{colour}m{text}\x1b[0m"),
            (true, false) => writeln!(self.err, "\x1b[{colour}m{label}\x1b[0m{text}"),
        };
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is written, for tests of what commands print.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A printer and what it wrote to stdout and stderr.
    pub(crate) fn kept() -> (Printer, Kept, Kept) {
        let (out, err) = (Kept::default(), Kept::default());
        (Printer::new(Box::new(out.clone()), Box::new(err.clone()), false), out, err)
    }

    #[test]
    fn results_and_words_go_different_ways() {
        let (mut printer, out, err) = kept();
        printer.text("par").unwrap();
        printer.line("t").unwrap();
        printer.error("it broke");
        printer.hint("mend it");
        assert_eq!((out.text().as_str(), err.text().as_str()), ("part\n", "error: it broke\nhint: mend it\n"));
    }

    #[test]
    fn colour_is_only_on_words() {
        let (out, err) = (Kept::default(), Kept::default());
        let mut printer = Printer::new(Box::new(out.clone()), Box::new(err.clone()), true);
        printer.line("result").unwrap();
        printer.error("it broke");
        assert_eq!(out.text(), "result\n");
        assert_eq!(err.text(), "\x1b[31merror: \x1b[0mit broke\n");
    }
}
