//! The engine child as a program of its own, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    idlewild_engine::child_main()
}
