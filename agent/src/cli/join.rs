//! `idlewild join`: trades a ticket for a membership, while no agent runs on these directories.

use std::io::{BufRead, IsTerminal, Read};
use std::path::Path;

use idlewild_protocol::{TICKET_PREFIX, Ticket};

use super::args::JoinArgs;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::{Exit, Printer};
use crate::config::Paths;
use crate::store::{DataLock, Store, StoredMembership, load_membership, load_or_create_identity, unix_s};

/// A longer text is no ticket.
const MAX_TICKET_BYTES: u64 = 8 * 1024;

pub(super) async fn join(context: &Context, printer: &mut Printer, args: JoinArgs) -> Result<Exit, Failure> {
    let text = read_ticket(printer, args.file.as_deref())?;
    let ticket: Ticket = text.parse().map_err(|error: idlewild_protocol::MemberError| {
        let failure = if text.starts_with(TICKET_PREFIX) {
            Failure::words(
                Exit::Usage,
                "the ticket is damaged: a part of it is missing or changed; nothing was changed here",
            )
        } else {
            Failure::new(Exit::Usage, error)
        };
        failure.hint("copy the whole line that `idlewild invite` printed")
    })?;
    context.create_directories()?;
    let membership = join_with(&context.paths, &ticket, args.replace).await?;
    printer.line(membership.swarm)?;
    printer.note("joined; start the agent with `idlewild up`");
    Ok(Exit::Fine)
}

/// Joins with a ticket and keeps the membership. On failure everything is as it was.
pub(super) async fn join_with(paths: &Paths, ticket: &Ticket, replace: bool) -> Result<StoredMembership, Failure> {
    let _lock = DataLock::take(paths).map_err(|error| {
        Failure::new(Exit::State, error).hint("an agent joins while it is stopped: `idlewild down`, then join again")
    })?;
    let now_s = unix_s();
    let me = load_or_create_identity(paths).or_exit(Exit::State)?;
    if ticket.issuer == me.peer() {
        return Err(Failure::words(Exit::Usage, "this ticket is this machine's own; nothing was changed")
            .hint("it is for another machine: run `idlewild join` there"));
    }
    if !replace {
        check_free(paths, &me, ticket, now_s).await?;
    }
    let joined = idlewild_swarm::join(&me.identity(), ticket).await.map_err(|error| {
        Failure::new(Exit::Failed, anyhow::Error::new(error).context("could not join; nothing was changed"))
    })?;
    let membership = StoredMembership::joined(joined.membership.swarm, joined.membership.chain, joined.addresses);
    membership.role(me.peer(), now_s).or_exit(Exit::Failed)?;
    membership.save(paths).or_exit(Exit::State)?;
    Ok(membership)
}

/// A swarm is left without a question only if nobody would miss this peer there: it founded it and let nobody in.
async fn check_free(
    paths: &Paths,
    me: &crate::store::IdentitySeed,
    ticket: &Ticket,
    now_s: u64,
) -> Result<(), Failure> {
    let Some(present) = load_membership(paths, me, now_s).or_exit(Exit::State)? else { return Ok(()) };
    if present.swarm == ticket.swarm {
        return Err(Failure::words(Exit::Usage, "this peer is a member of that swarm already"));
    }
    let is_alone = present.swarm_key.is_some() && {
        let store = Store::open(&paths.database_file()).or_exit(Exit::State)?;
        store.tickets_used().await.or_exit(Exit::State)? == 0
    };
    if is_alone {
        return Ok(());
    }
    Err(Failure::words(Exit::Usage, format!("this peer is a member of another swarm ({})", present.swarm))
        .hint("to leave that one for good: idlewild join --replace"))
}

fn read_ticket(printer: &mut Printer, file: Option<&Path>) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    match file {
        Some(path) if path != Path::new("-") => {
            let open = std::fs::File::open(path).map_err(|error| {
                Failure::new(
                    Exit::Usage,
                    anyhow::Error::new(error).context(format!("could not read {}", path.display())),
                )
            })?;
            open.take(MAX_TICKET_BYTES).read_to_string(&mut text).or_exit(Exit::Usage)?;
        }
        None if stdin.is_terminal() => {
            printer.prompt("ticket: ");
            stdin.lock().take(MAX_TICKET_BYTES).read_line(&mut text).or_exit(Exit::Failed)?;
        }
        Some(_) | None => {
            stdin.take(MAX_TICKET_BYTES).read_to_string(&mut text).or_exit(Exit::Usage)?;
        }
    }
    Ok(text.trim().to_owned())
}
