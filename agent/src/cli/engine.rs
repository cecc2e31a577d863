//! `idlewild engine`: the process around llama.cpp that an agent starts.

use std::process::ExitCode;

use clap::Args;
use idlewild_engine::Courtesy;

#[derive(Debug, Clone, Copy, Args, Default)]
pub(super) struct EngineArgs {
    /// Have the share of a session beside the others
    #[arg(long)]
    share: bool,
}

/// Runs until its parent closes the pipe.
pub(super) fn engine(args: EngineArgs) -> ExitCode {
    idlewild_engine::child_main(if args.share { Courtesy::Share } else { Courtesy::YieldToAll })
}
