//! What `idlewild hazard` is told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct HazardArgs {
    #[command(subcommand)]
    pub(super) command: Option<HazardCommand>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum HazardCommand {
    /// Compare estimators on recorded sessions: learn from one table, forecast another, later in time
    Score(ScoreArgs),
    /// Put earlier sessions of this machine on record, all of a table or none
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ScoreArgs {
    /// The table to learn from: host,start_s,end_s,censored
    #[arg(long, value_name = "FILE")]
    pub(super) train: PathBuf,
    /// The table to forecast, by the same clock; of the same hosts or of others
    #[arg(long, value_name = "FILE")]
    pub(super) test: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The table: start_s,end_s in seconds since 1970, in order; cause, censored and host where you have them
    pub(super) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
