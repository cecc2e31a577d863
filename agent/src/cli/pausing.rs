//! `idlewild pause`, `resume` and `snooze`: the owner's own word.

use super::args::{JsonArgs, SnoozeArgs};
use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::format::seconds;
use super::{Exit, Printer};
use crate::api::wire::{PauseReply, PauseRequest};

pub(super) async fn pause(context: &Context, printer: &mut Printer, args: JsonArgs) -> Result<Exit, Failure> {
    let said = "this machine takes no work until `idlewild resume`";
    ask(context, printer, ("pause", PauseRequest { for_s: None }), (said, args.json)).await
}

pub(super) async fn resume(context: &Context, printer: &mut Printer, args: JsonArgs) -> Result<Exit, Failure> {
    let said = "this machine takes work when its owner is away and its rules permit";
    ask(context, printer, ("resume", PauseRequest { for_s: None }), (said, args.json)).await
}

pub(super) async fn snooze(context: &Context, printer: &mut Printer, args: SnoozeArgs) -> Result<Exit, Failure> {
    let said = format!("this machine takes no work for {}; `idlewild resume` ends that", seconds(args.time));
    ask(context, printer, ("pause", PauseRequest { for_s: Some(args.time) }), (&said, args.json)).await
}

async fn ask(
    context: &Context,
    printer: &mut Printer,
    (route, body): (&str, PauseRequest),
    (said, json): (&str, bool),
) -> Result<Exit, Failure> {
    let client = Client::new(&context.paths)?;
    let reply: PauseReply = client.post(&format!("/idlewild/v1/{route}"), &body).await?;
    if json {
        printer.json(&reply)?;
    } else {
        printer.line(said)?;
    }
    Ok(Exit::Fine)
}
