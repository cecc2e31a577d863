//! `idlewild explain`: where a request ran, and the terms that decided.

use std::io::IsTerminal;

use idlewild_protocol::{PeerId, PeerTerms};

use super::args::ExplainArgs;
use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::format::{seconds, table};
use super::{Exit, Printer, explain_moves};
use crate::api::wire::{AssignmentReply, ExplainReply, RequestsReply};
use crate::store::unix_s;

/// What the columns mean, for people who look on.
const LEGEND: &str = "
E = T + L is what the choice goes by: T = WAIT + WORK, the seconds until the answer is done, and L, the seconds that are
expected to be lost because the peer may leave before (LEAVES: how likely that is). > worked, + was to take over.";

pub(super) async fn explain(context: &Context, printer: &mut Printer, args: ExplainArgs) -> Result<Exit, Failure> {
    let client = Client::new(&context.paths)?;
    let story = match args.request.as_deref() {
        None | Some("last") => latest(&client).await?,
        Some(request) => story_of(&client, request).await?,
    };
    if args.json {
        printer.json(&story)?;
    } else {
        for line in lines(&story, unix_s()) {
            printer.line(line)?;
        }
        if std::io::stdout().is_terminal() {
            printer.line(LEGEND)?;
        }
    }
    Ok(Exit::Fine)
}

/// The story of one request of this peer.
pub(super) async fn story_of(client: &Client, request: &str) -> Result<ExplainReply, Failure> {
    // The id goes into a path: anything that is not one could ask something else.
    let is_id = request.parse::<idlewild_protocol::RequestId>().is_ok();
    if !is_id {
        return Err(Failure::words(Exit::Usage, format!("{request:?} is not a request"))
            .hint("`idlewild run` prints a request's name, such as req-abc..."));
    }
    client.get(&format!("/idlewild/v1/explain/{request}")).await
}

/// The story of what was asked last at this peer.
pub(super) async fn latest(client: &Client) -> Result<ExplainReply, Failure> {
    let reply: RequestsReply = client.get("/idlewild/v1/requests").await?;
    reply.requests.into_iter().next().ok_or_else(|| {
        Failure::words(Exit::NotFound, "nothing has been asked at this peer yet")
            .hint("what became of a request is kept at the peer where it was asked, not where it ran: explain it there")
    })
}

/// Two lines to stderr after an answer: who gave it, and why that one.
pub(super) fn summary(printer: &mut Printer, story: &ExplainReply) {
    let Some(last) = story.assignments.last() else { return };
    let moves = match story.assignments.len() - 1 {
        0 => String::new(),
        1 => ", after one move".to_owned(),
        n => format!(", after {n} moves"),
    };
    printer.note(format!("answered by {}{moves} ({})", last.worker.short(), story.request));
    if let Some(chosen) = terms_of(last, last.worker) {
        let next = last.terms.iter().find(|terms| terms.peer != last.worker);
        let next = next.map_or_else(String::new, |terms| format!("; next: {} {}", terms.peer.short(), verdict(terms)));
        printer.note(format!("because {}{next}", verdict(chosen)));
    }
}

fn verdict(terms: &PeerTerms) -> String {
    match terms.unfit {
        Some(why) => why.to_string(),
        None => format!(
            "E = {:.2} s = wait {:.2} + work {:.2} + expected loss {:.2} (leaves before the end: {:.1} %)",
            terms.expected_s(),
            terms.wait_s,
            terms.service_s,
            terms.loss_s,
            terms.leave_probability * 100.0
        ),
    }
}

fn terms_of(assignment: &AssignmentReply, peer: PeerId) -> Option<&PeerTerms> {
    assignment.terms.iter().find(|terms| terms.peer == peer)
}

fn lines(story: &ExplainReply, now_s: u64) -> Vec<String> {
    let ago = seconds(now_s.saturating_sub(story.accepted_s));
    let mut lines = vec![
        format!("request  {}", story.request),
        format!("model    {} ({})", story.model_name, story.model),
        format!("accepted {ago} ago"),
        format!("outcome  {}", outcome(story)),
    ];
    for assignment in &story.assignments {
        lines.push(String::new());
        lines.extend(assignment_lines(assignment));
    }
    lines.extend(explain_moves::lines(&story.moves));
    lines
}

fn outcome(story: &ExplainReply) -> String {
    let tokens = format!(
        "{} + {} tokens",
        story.prompt_tokens.map_or_else(|| "?".to_owned(), |n| n.to_string()),
        story.output_tokens
    );
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.2} s", ms as f64 / 1000.0));
    let end = match (&story.error, story.finish, story.took_ms) {
        (Some(error), _, _) => format!("failed: {error}"),
        (None, Some(idlewild_protocol::FinishReason::Stop), _) => "the model ended it".to_owned(),
        (None, Some(idlewild_protocol::FinishReason::Length), _) => "its length was reached".to_owned(),
        (None, None, Some(_)) => "the client went away".to_owned(),
        (None, None, None) => "still running".to_owned(),
    };
    format!("{end}; {tokens}, first after {}, all in {}", time(story.first_token_ms), time(story.took_ms))
}

fn assignment_lines(assignment: &AssignmentReply) -> Vec<String> {
    let ended = assignment.ended.as_deref().unwrap_or("runs");
    let decided = if assignment.decided_by == assignment.worker {
        format!("decided by {} itself, term {}", assignment.decided_by.short(), assignment.term)
    } else {
        format!("decided by {}, term {}", assignment.decided_by.short(), assignment.term)
    };
    let heading = format!(
        "{}. tokens from {} on {}: {ended} ({decided})",
        assignment.epoch,
        assignment.from_index,
        assignment.worker.short(),
    );
    let header = ["", "PEER", "E", "T", "WAIT", "WORK", "L", "LEAVES"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(header).chain(assignment.terms.iter().map(|terms| row(assignment, terms))).collect();
    let measured = assignment.measured.and_then(explain_moves::measured);
    let measured = measured.map(|figures| format!("  went on there with {figures}"));
    std::iter::once(heading).chain(measured).chain(table(&rows).into_iter().map(|line| format!("  {line}"))).collect()
}

fn row(assignment: &AssignmentReply, terms: &PeerTerms) -> Vec<String> {
    let mark = if terms.peer == assignment.worker {
        ">"
    } else if Some(terms.peer) == assignment.fallback {
        "+"
    } else {
        ""
    };
    let mut row = vec![mark.to_owned(), terms.peer.short()];
    if let Some(why) = terms.unfit {
        row.extend(["-"; 5].map(str::to_owned));
        row.push(why.to_string());
    } else {
        let times = [terms.expected_s(), terms.time_s(), terms.wait_s, terms.service_s, terms.loss_s];
        row.extend(times.map(|s| format!("{s:.2} s")));
        row.push(format!("{:.1} %", terms.leave_probability * 100.0));
    }
    row
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{Epoch, FinishReason, ModelId, RequestId, Term, Unfit};

    use super::super::printer::tests::kept;
    use super::*;
    use crate::api::wire::MeasuredMove;

    fn terms(peer: u8, unfit: Option<Unfit>) -> PeerTerms {
        let peer = PeerId([peer; 32]);
        PeerTerms { peer, unfit, wait_s: 0.5, service_s: 1.0, loss_s: 0.25, leave_probability: 0.125 }
    }

    fn story() -> ExplainReply {
        ExplainReply {
            request: RequestId([1; 16]),
            model: ModelId([2; 32]),
            model_name: "smol".into(),
            accepted_s: 100,
            took_ms: Some(3200),
            first_token_ms: Some(150),
            prompt_tokens: Some(34),
            output_tokens: 200,
            finish: Some(FinishReason::Stop),
            error: None,
            standby: None,
            moves: Vec::new(),
            assignments: vec![AssignmentReply {
                epoch: Epoch(1),
                worker: PeerId([1; 32]),
                fallback: Some(PeerId([2; 32])),
                decided_by: PeerId([2; 32]),
                term: Term(3),
                from_index: 0,
                ended: Some("done".into()),
                cause: None,
                terms: vec![terms(1, None), terms(2, None), terms(3, Some(Unfit::NoModel))],
                measured: Some(MeasuredMove {
                    stall_ms: Some(310),
                    pulled_tokens: Some(30),
                    ..MeasuredMove::default()
                }),
            }],
        }
    }

    #[test]
    fn the_terms_of_the_chosen_and_the_rejected_are_shown() {
        let text = lines(&story(), 160).join("\n");
        for expected in [
            "accepted 60 s ago",
            "the model ended it; 34 + 200 tokens, first after 0.15 s, all in 3.20 s",
            "1. tokens from 0 on ",
            "1.75 s  1.50 s  0.50 s  1.00 s  0.25 s  12.5 %",
            "does not have the model",
            "went on there with a stall of 0.31 s, 30 tokens pulled",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
        }
        let chosen = text.lines().find(|line| line.trim_start().starts_with('>')).unwrap();
        assert!(chosen.contains(&PeerId([1; 32]).short()), "{chosen}");
    }

    #[test]
    fn the_summary_says_who_and_why() {
        let (mut printer, out, err) = kept();
        summary(&mut printer, &story());
        assert_eq!(out.text(), "");
        let text = err.text();
        assert!(text.starts_with(&format!("answered by {} (req-", PeerId([1; 32]).short())), "{text}");
        assert!(text.contains("because E = 1.75 s = wait 0.50 + work 1.00 + expected loss 0.25"), "{text}");
    }
}
