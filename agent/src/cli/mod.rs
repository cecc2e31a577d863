//! The command line: what a person types, what is printed, and how a command ends.
//!
//! ```text
//! args (clap) --> one module a command --> client --HTTP--> the agent of this user
//!                                     \--> store, models (nothing runs yet)
//! printer: stdout only for what can be piped; everything else, `hint:` lines too, goes to stderr
//! ```
//!
//! Deliberately absent: decisions. A command asks the agent and shows the answer.

mod answer;
mod args;
mod client;
mod cluster;
mod context;
mod doctor;
mod durations;
mod engine;
mod exit;
mod explain;
mod explain_moves;
mod failure;
mod format;
mod hazard;
mod identity;
mod invite;
mod join;
mod lookout;
mod models;
mod moving;
mod pausing;
mod printer;
mod process;
mod rules;
mod run;
mod settings;
mod sse;
mod status;
mod up;
mod waiting;

use std::process::ExitCode;

use clap::Parser;

pub use exit::Exit;
pub use printer::Printer;

use args::{Cli, Command, DevCommand};
use context::Context;
use failure::Failure;

/// The command line's definitions, for man pages and completions.
pub fn definitions() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each belongs.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Fine.into() };
        }
    };
    if let Command::Engine(args) = cli.command {
        return engine::engine(args);
    }
    let mut printer = Printer::of_process();
    match perform(cli, &mut printer) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(&mut printer).into(),
    }
}

/// Says why this machine cannot run the program at all.
pub fn cannot_run(why: &dyn std::error::Error) -> ExitCode {
    let mut printer = Printer::of_process();
    printer.error(why);
    printer.hint("build it on and for this machine: see docs/operating.md");
    Exit::Failed.into()
}

fn perform(cli: Cli, printer: &mut Printer) -> Result<Exit, Failure> {
    let context = Context::new(cli.home)?;
    // One thread: a token passes six tasks, and waking each on another thread costs more than its work. Whatever takes
    // long is elsewhere: the engine in its child, the swarm and the database on their threads, files on blocking ones.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(Exit::Failed, anyhow::Error::new(e).context("could not start threads")))?;
    let outcome = runtime.block_on(dispatch(cli.command, &context, printer));
    // A blocked read of the terminal must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(command: Command, context: &Context, printer: &mut Printer) -> Result<Exit, Failure> {
    match command {
        Command::Up(args) => up::up(context, printer, args).await,
        Command::Down => up::down(context, printer).await,
        Command::Run(args) => run::run(context, printer, args).await,
        Command::Status(args) => status::status(context, printer, args).await,
        Command::Doctor(args) => doctor::doctor(context, printer, args).await,
        Command::Pause(args) => pausing::pause(context, printer, args).await,
        Command::Resume(args) => pausing::resume(context, printer, args).await,
        Command::Snooze(args) => pausing::snooze(context, printer, args).await,
        Command::Rules(args) => rules::rules(context, printer, args).await,
        Command::Explain(args) => explain::explain(context, printer, args).await,
        Command::Hazard(args) => hazard::hazard(context, printer, args).await,
        Command::Move(args) => moving::move_request(context, printer, args).await,
        Command::Invite(args) => invite::invite(context, printer, args).await,
        Command::Join(args) => join::join(context, printer, args).await,
        Command::Models(args) => models::models(context, printer, args).await,
        Command::Config(args) => settings::config(context, printer, args),
        Command::Identity(args) => identity::identity(context, printer, args),
        Command::Dev(args) => match args.command {
            DevCommand::Cluster(args) => cluster::cluster(context, printer, args).await,
            DevCommand::Stop(args) => cluster::stop(context, printer, args).await,
        },
        Command::Lookout(args) => lookout::lookout(context, printer, args).await,
        Command::Engine(_) => Ok(Exit::Failed),
    }
}
