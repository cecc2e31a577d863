//! The child's side: frames in, one batching loop, frames out.
//!
//! ```text
//! reader thread: descriptor 0 -> commands --> run: obey | step --> events -> descriptor 1
//!                                                     |
//!                            prepare, plan, Model::evaluate, sampler, text
//! ```
//!
//! A halt is the one command that does not wait for the loop: the reader sets a flag that the running step sees.
//!
//! Descriptor 1 is moved away at the start, and what llama.cpp or anything that it runs writes there goes to 2: else a
//! debugger's words about a crash would be taken for a frame.
//!
//! The reader ends the whole process the moment that its pipe closes, also in the middle of a step: an agent that died
//! leaves no engine behind.

mod admission;
mod batcher;
mod chunks;
mod exports;
mod fake;
mod halt;
mod kv;
mod line;
mod llama;
mod llama_context;
#[cfg(test)]
mod llama_hostile_tests;
mod llama_log;
#[cfg(test)]
mod llama_measure;
#[cfg(test)]
mod llama_move_tests;
#[cfg(test)]
mod llama_support;
mod load;
mod model;
pub(crate) mod pipe;
mod plan;
mod prepare;
mod priority;
mod rates;
mod run;
mod sampler;
mod sequence;
mod standby;
mod template;
mod text;
mod verify;
mod warm_up;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

use crate::messages::EngineCommand;
pub(crate) use halt::Halt;
pub use plan::piece_s;
pub use priority::Courtesy;
pub(crate) use run::run;

/// Commands that wait for the loop: more than the parent has under way, so that the reader always reads on and sees a halt.
const COMMANDS_MAX: usize = 512;

/// Environment variable with the child's log filter, as for the agent.
const LOG_VARIABLE: &str = "IDLEWILD_LOG";

/// What `idlewild engine` runs: reads commands on descriptor 0, writes events on 1, logs on 2; ends when 0 closes.
///
/// Takes the lowest priority for the whole process first, as far as `courtesy` says.
pub fn child_main(courtesy: Courtesy) -> ExitCode {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // A log that the caller has set up already stays.
    let _ = log.try_init();
    priority::lower(courtesy);
    let mut frames = match frames() {
        Ok(frames) => frames,
        Err(error) => {
            tracing::error!(%error, "the engine cannot have a pipe of its own");
            return ExitCode::FAILURE;
        }
    };
    let (sender, commands) = mpsc::channel(COMMANDS_MAX);
    let halt = Arc::new(Halt::default());
    let seen = Arc::clone(&halt);
    let reader = thread::Builder::new().name("engine-reader".to_owned());
    if let Err(error) = reader.spawn(move || read_commands(&sender, &seen)) {
        tracing::error!(%error, "the engine cannot start its reader");
        return ExitCode::FAILURE;
    }
    run(commands, &halt, move |event| match pipe::write(&mut frames, &event) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "the engine's parent no longer listens");
            false
        }
    });
    ExitCode::SUCCESS
}

/// The pipe to the parent, which no program that this one may run inherits; descriptor 1 is the log from here on.
#[cfg(unix)]
fn frames() -> io::Result<impl io::Write> {
    use std::os::fd::AsFd;

    // Never 0 to 2, and closed on exec.
    let pipe = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(std::fs::File::from(pipe))
}

#[cfg(not(unix))]
fn frames() -> io::Result<impl io::Write> {
    Ok(io::stdout())
}

fn read_commands(sender: &mpsc::Sender<EngineCommand>, halt: &Halt) {
    let mut stdin = io::stdin().lock();
    loop {
        match pipe::read(&mut stdin) {
            Ok(Some(command)) => {
                if let EngineCommand::Halt(on) = command {
                    // Now, though a step runs; the loop only wakes by the command.
                    halt.set(on);
                }
                if sender.blocking_send(command).is_err() {
                    return;
                }
            }
            Ok(None) => std::process::exit(0),
            Err(error) => {
                tracing::error!(%error, "the engine cannot read its commands");
                std::process::exit(1);
            }
        }
    }
}
