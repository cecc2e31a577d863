//! How a command ends, for scripts.

use std::process::ExitCode;

/// The exit code of every command. The numbers are an interface: they do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was done.
    Fine,
    /// It was not done, for a reason that has no code of its own.
    Failed,
    /// The command line, a setting or a parameter is wrong, or an address or port cannot be had; nothing was begun.
    Usage,
    /// No agent runs for these directories.
    NoAgent,
    /// No peer can serve the request now; later one may.
    NoPeer,
    /// There is no such model, request or prompt length here.
    NotFound,
    /// The directories or the membership cannot be used: held by another process, a copy, damaged, expired, unreadable, or
    /// readable by others.
    State,
    /// Stopped by Ctrl-C.
    Interrupted,
    /// Whoever read the output went away.
    PipeClosed,
}

impl Exit {
    /// Every way to end, with its meaning as `--help` prints it.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Fine, "done"),
        (Self::Failed, "failed"),
        (Self::Usage, "the command line or a setting is wrong, or an address or port cannot be had"),
        (Self::NoAgent, "no agent is running"),
        (Self::NoPeer, "no peer can serve the request now"),
        (Self::NotFound, "no such model or request, or a prompt that fits no peer"),
        (Self::State, "the directories cannot be used (in use, copied, damaged, unreadable, readable by others)"),
        (Self::Interrupted, "interrupted"),
        (Self::PipeClosed, "the reader of the output went away"),
    ];

    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoAgent => 3,
            Self::NoPeer => 4,
            Self::NotFound => 5,
            Self::State => 6,
            // As shells report a process that a signal ended: 128 + SIGINT, 128 + SIGPIPE.
            Self::Interrupted => 130,
            Self::PipeClosed => 141,
        }
    }

    /// The way to end that has this number.
    pub(super) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().map(|(exit, _)| exit).find(|exit| exit.code() == code)
    }

    /// The list for `--help`.
    pub fn help() -> String {
        let line = |(exit, meaning): (Self, &str)| format!("  {:>3}  {meaning}\n", exit.code());
        std::iter::once("Exit codes:\n".to_owned()).chain(Self::ALL.map(line)).collect()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_all_are_in_the_help() {
        let help = Exit::help();
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|(exit, _)| exit.code()).collect();
        for code in &codes {
            assert!(help.contains(&format!("  {code:>3}  ")), "{code} is missing");
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
