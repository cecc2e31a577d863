//! The two ways to a child: a process behind a pipe, or a thread.

/// Where the engine's loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a child process.
    Process,
    /// On a thread of this one.
    Thread,
}
