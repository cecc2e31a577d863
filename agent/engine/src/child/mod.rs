//! The child's side: frames in, one batching loop, frames out.

use std::process::ExitCode;

/// What `idlewild engine` runs: reads commands on descriptor 0, writes events on 1, logs on 2; ends when 0 closes.
pub fn child_main() -> ExitCode {
    ExitCode::FAILURE
}
