//! `idlewild identity`: who this machine is, and what to do about a copied or moved data directory.

use serde_json::json;

use super::args::{IdentityArgs, IdentityCommand};
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::{Exit, Printer};
use crate::store::{DataLock, keep_identity, load_membership, load_or_create_identity, reset_identity, unix_s};

pub(super) fn identity(context: &Context, printer: &mut Printer, args: IdentityArgs) -> Result<Exit, Failure> {
    context.create_directories()?;
    let paths = &context.paths;
    match args.command {
        IdentityCommand::Show(args) => {
            let me = load_or_create_identity(paths).or_exit(Exit::State)?;
            let membership = load_membership(paths, &me, unix_s()).or_exit(Exit::State)?;
            let swarm = membership.map(|membership| membership.swarm);
            if args.json {
                printer.json(&json!({"peer": me.peer(), "swarm": swarm}))?;
            } else {
                printer.line(format!("peer   {}", me.peer()))?;
                let swarm = swarm.map_or_else(|| "none yet".to_owned(), |swarm| swarm.to_string());
                printer.line(format!("swarm  {swarm}"))?;
            }
        }
        IdentityCommand::Reset => {
            let _lock = DataLock::take(paths).or_exit(Exit::State)?;
            let me = reset_identity(paths).or_exit(Exit::State)?;
            printer.line(me.peer())?;
            printer.note("a new identity; the old one and its membership are kept beside it (*.old)");
            printer.hint("to join the swarm again: `idlewild invite` there, `idlewild join` here");
        }
        IdentityCommand::Keep => {
            let _lock = DataLock::take(paths).or_exit(Exit::State)?;
            match keep_identity(paths).or_exit(Exit::State)? {
                Some(me) => printer.line(me.peer())?,
                None => return Err(Failure::words(Exit::State, "there is no identity here to keep")),
            }
        }
    }
    Ok(Exit::Fine)
}
