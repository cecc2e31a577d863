//! `idlewild lookout`: tells an agent outside this session whether somebody uses its screen.

use std::path::PathBuf;

use clap::Args;

use super::context::Context;
use super::failure::Failure;
use super::{Exit, Printer};

#[derive(Debug, Args)]
pub(super) struct LookoutArgs {
    /// The agent's socket; if not given that of owner.lookout_socket, or /run/idlewild/lookouts.sock
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[cfg(target_os = "linux")]
pub(super) async fn lookout(context: &Context, printer: &mut Printer, args: LookoutArgs) -> Result<Exit, Failure> {
    use crate::owner::lookout::{LookoutNews, agents_socket, keep_watch};

    let (config, remarks) = context.config(crate::config::Layer::default())?;
    for remark in remarks {
        printer.warning(remark);
    }
    let socket = args.socket.unwrap_or_else(|| agents_socket(&config.owner));
    let tell = |news| match news {
        LookoutNews::Heard => printer.note(format!("the agent at {} listens to this session", socket.display())),
        LookoutNews::Waiting(why) => printer.warning(format!("{why}; this lookout waits for an agent")),
        LookoutNews::Ended => printer.note("this session has ended"),
    };
    let watched = keep_watch(&socket, tell).await;
    watched.map_err(|error| Failure::new(Exit::Failed, error))?;
    Ok(Exit::Fine)
}

/// Elsewhere an agent sees what there is to see, or runs in the session of its user.
#[cfg(not(target_os = "linux"))]
pub(super) async fn lookout(_: &Context, _: &mut Printer, args: LookoutArgs) -> Result<Exit, Failure> {
    drop(args.socket);
    let why = "lookouts are for Linux: on this system run the agent in the session of its user";
    Err(Failure::words(Exit::Usage, why).hint("see docs/operating.md, Whether somebody is there"))
}
