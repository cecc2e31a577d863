//! Why a command failed, and how that is told: the chain of reasons once, then what to do.

use std::fmt::Display;
use std::io;

use super::{Exit, Printer};

/// A command's failure.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    error: anyhow::Error,
    hint: Option<String>,
}

impl Failure {
    pub(super) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hint: None }
    }

    /// A failure in words of its own.
    pub(super) fn words(exit: Exit, words: impl Display) -> Self {
        Self::new(exit, anyhow::anyhow!("{words}"))
    }

    pub(super) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// What the process would end with.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints it; gives what the process ends with.
    pub(super) fn report(&self, printer: &mut Printer) -> Exit {
        if self.exit == Exit::PipeClosed {
            return self.exit;
        }
        // A reason may carry its own advice on lines that begin with `hint: `: they come last.
        let mut reasons = Vec::new();
        let mut hints: Vec<String> = Vec::new();
        for reason in self.error.chain() {
            let (text, advice) = split_hint(&reason.to_string());
            reasons.push(text);
            hints.extend(advice);
        }
        printer.error(reasons.join(": "));
        hints.extend(self.hint.clone());
        for hint in hints {
            printer.hint(hint);
        }
        self.exit
    }
}

/// A message without its advice, and the advice.
fn split_hint(message: &str) -> (String, Option<String>) {
    match message.split_once("\nhint: ") {
        Some((text, hint)) => (text.to_owned(), Some(hint.trim().to_owned())),
        None => (message.to_owned(), None),
    }
}

/// Writing to stdout failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::PipeClosed } else { Exit::Failed };
        Self::new(exit, anyhow::Error::new(error).context("could not write the output"))
    }
}

/// Gives any error its exit code.
pub(super) trait OrExit<T> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::printer::tests::kept;
    use super::*;

    #[test]
    fn reasons_are_chained_once_and_hints_come_last() {
        let (mut printer, out, err) = kept();
        let error = anyhow::anyhow!("no space\nhint: make room").context("could not write x");
        let exit = Failure::new(Exit::State, error).hint("or buy a disk").report(&mut printer);
        assert_eq!(exit, Exit::State);
        assert_eq!(err.text(), "error: could not write x: no space\nhint: make room\nhint: or buy a disk\n");
        assert_eq!(out.text(), "");
    }

    #[test]
    fn a_closed_pipe_is_silent() {
        let (mut printer, _, err) = kept();
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.report(&mut printer), err.text().as_str()), (Exit::PipeClosed, ""));
    }
}
