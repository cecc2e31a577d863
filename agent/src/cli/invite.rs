//! `idlewild invite`: a ticket on stdout, what to do with it on stderr.

use super::args::InviteArgs;
use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::format::seconds;
use super::{Exit, Printer};
use crate::api::wire::{InviteReply, InviteRequest};

pub(super) async fn invite(context: &Context, printer: &mut Printer, args: InviteArgs) -> Result<Exit, Failure> {
    let client = Client::new(&context.paths)?;
    let reply: InviteReply = client.post("/idlewild/v1/invite", &InviteRequest { ttl_s: args.ttl }).await?;
    if args.json {
        printer.json(&reply)?;
        return Ok(Exit::Fine);
    }
    printer.line(&reply.ticket)?;
    printer.note(format!(
        "good for one machine within {}; whoever has it can join, so send it over a channel that you trust",
        seconds(args.ttl)
    ));
    printer.note("on the other machine: idlewild join");
    Ok(Exit::Fine)
}
