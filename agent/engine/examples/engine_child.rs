//! The engine child as a program of its own, for the tests of this crate. With `--share` its session has its share: what
//! else the machine has to do is not to fail a test.

use std::process::ExitCode;

use idlewild_engine::Courtesy;

fn main() -> ExitCode {
    let shares = std::env::args().any(|argument| argument == "--share");
    idlewild_engine::child_main(if shares { Courtesy::Share } else { Courtesy::YieldToAll })
}
