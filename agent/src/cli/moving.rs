//! `idlewild move`: has a running request go on at another peer, or be prepared there.

use idlewild_protocol::{PeerId, RequestId, Way};

use super::args::{MoveArgs, WayArg};
use super::client::Client;
use super::context::Context;
use super::explain::latest;
use super::failure::Failure;
use super::{Exit, Printer};
use crate::api::wire::{MoveReply, MoveRequest, StatusReply};

pub(super) async fn move_request(context: &Context, printer: &mut Printer, args: MoveArgs) -> Result<Exit, Failure> {
    let named = (args.request != "last").then(|| args.request.parse::<RequestId>()).transpose().map_err(|_| {
        Failure::words(Exit::Usage, format!("{:?} is not a request", args.request)).hint(
            "`idlewild explain` prints a request's name, such as req-abc...; `last` is the one that was asked last",
        )
    })?;
    let client = Client::new(&context.paths)?;
    let request = match named {
        Some(request) => request,
        None => latest(&client).await?.request,
    };
    let to = peer_named(&client.get("/idlewild/v1/status").await?, &args.to)?;
    let asked = MoveRequest { request, to, way: args.way.way(), prepare_only: args.prepare_only };
    let reply: MoveReply = client.post("/idlewild/v1/move", &asked).await?;
    if args.json {
        printer.json(&reply)?;
    } else {
        printer.line(said(&reply))?;
        printer.note(format!("`idlewild explain {}` shows what comes of it", reply.request));
    }
    Ok(Exit::Fine)
}

fn said(reply: &MoveReply) -> String {
    let (from, to) = (reply.from.short(), reply.to.short());
    let how = way_words(reply.way);
    if reply.prepare_only {
        format!("{to} prepares to take over from {from} ({how})")
    } else {
        format!("{to} prepares ({how}) and takes over from {from} as soon as it keeps up")
    }
}

/// A way in words, as `explain` has it too.
pub(super) fn way_words(way: Way) -> &'static str {
    match way {
        Way::Ids => "from the ids",
        Way::PreCopy => "pulling the whole KV cache",
        Way::Hybrid => "prefilling from one end, pulling from the other",
        Way::StoppedSplit => "prefilling from one end, pulling from a worker that has stopped",
    }
}

/// The peer of that name: its whole id, or the end of it that tables show.
fn peer_named(status: &StatusReply, name: &str) -> Result<PeerId, Failure> {
    if let Ok(peer) = name.parse() {
        return Ok(peer);
    }
    let known = status.peers.iter().map(|peer| peer.peer).chain([status.peer]);
    let mut alike = known.filter(|peer| peer.short() == name);
    match (alike.next(), alike.next()) {
        (Some(peer), None) => Ok(peer),
        (Some(_), Some(_)) => {
            Err(Failure::words(Exit::Usage, format!("two peers are called {name}")).hint("give the whole id"))
        }
        (None, _) => Err(Failure::words(Exit::NotFound, format!("no peer is called {name}"))
            .hint("`idlewild status` shows the peers that this one knows")),
    }
}

impl WayArg {
    /// None leaves it to the agent.
    fn way(self) -> Option<Way> {
        match self {
            Self::Auto => None,
            Self::Ids => Some(Way::Ids),
            Self::Whole => Some(Way::PreCopy),
            Self::Rest => Some(Way::Hybrid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_begun_is_said_with_whether_it_stays_at_that() {
        let (from, to) = (PeerId([1; 32]), PeerId([2; 32]));
        let reply = MoveReply { request: RequestId([1; 16]), from, to, way: Way::PreCopy, prepare_only: false };
        let (from, to) = (from.short(), to.short());
        let whole = "pulling the whole KV cache";
        assert_eq!(said(&reply), format!("{to} prepares ({whole}) and takes over from {from} as soon as it keeps up"));
        let only = MoveReply { prepare_only: true, ..reply };
        assert_eq!(said(&only), format!("{to} prepares to take over from {from} ({whole})"));
    }
}
