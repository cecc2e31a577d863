//! The plans of a request as sentences: when, what, from whom to whom, why, and what it cost.

use idlewild_protocol::{MoveTerms, PeerId, PeerTerms, PlanReason, PlanStep, PreparationTerms};

use super::moving::way_words;
use crate::api::wire::{MeasuredMove, MoveRecord};

/// Nothing where nothing was planned.
pub(super) fn lines(moves: &[MoveRecord]) -> Vec<String> {
    if moves.is_empty() {
        return Vec::new();
    }
    let heading = [String::new(), "plans".to_owned()];
    heading.into_iter().chain(moves.iter().flat_map(record_lines)).collect()
}

fn record_lines(record: &MoveRecord) -> Vec<String> {
    let weighed = record.terms.of(record.step.peer());
    let mut lines = vec![
        format!(
            "{:8.2} s  {}  (plan {} of term {}, by {})",
            record.at_ms as f64 / 1000.0,
            what(record),
            record.generation.number,
            record.generation.term,
            record.decided_by.short()
        ),
        detail(&format!("because {}{}", record.terms.reason, weighed.map_or_else(String::new, compared(record)))),
    ];
    let figures = figures(record.terms.stay.as_ref(), weighed, record.lag_tokens);
    lines.extend(figures.map(|figures| detail(&format!("expected: {figures}"))));
    lines.extend(record.refused.map(|why| detail(&format!("not followed: {why}"))));
    lines.extend(record.outcome.as_ref().map(|outcome| detail(&format!("came to nothing: {outcome}"))));
    lines.extend(record.measured.and_then(measured).map(|figures| detail(&format!("measured: {figures}"))));
    lines
}

fn detail(text: &str) -> String {
    format!("{:12}{text}", "")
}

fn what(record: &MoveRecord) -> String {
    let to = record.step.peer().short();
    let from = record.from.map_or_else(|| "nobody".to_owned(), PeerId::short);
    match record.step {
        PlanStep::Prepare { way, .. } => format!("prepare on {to} while {from} goes on, {}", way_words(way)),
        PlanStep::Hold { .. } => format!("let {to} keep up with {from}"),
        PlanStep::Pause { .. } => format!("let {to} keep what it has, and send it nothing more"),
        PlanStep::Commit { .. } => format!("hand over from {from} to {to}"),
        PlanStep::Abort { .. } => format!("do not hand over to {to} after all"),
        PlanStep::Release { .. } => format!("let {to} forget the context"),
        PlanStep::Replace { .. } => format!("start on {to} instead of {from}"),
    }
}

/// Both sides of the test that decided.
fn compared(record: &MoveRecord) -> impl Fn(&MoveTerms) -> String {
    let unit = match record.terms.reason {
        PlanReason::StandbyPays | PlanReason::StandbyDoesNotPay => "tokens",
        PlanReason::PreparationPays
        | PlanReason::NoPreparationPays
        | PlanReason::MovePays
        | PlanReason::StandbyUseless
        | PlanReason::Notice
        | PlanReason::Orphaned
        | PlanReason::Queued
        | PlanReason::RiskFalls
        | PlanReason::Asked => "s",
    };
    move |weighed| {
        weighed.test.map_or_else(String::new, |(is, must)| format!(" ({is:.2} {unit} against {must:.2} {unit})"))
    }
}

fn figures(stay: Option<&PeerTerms>, weighed: Option<&MoveTerms>, lag_tokens: Option<u32>) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(PreparationTerms { ready_s, stall_s, work_s, bytes, .. }) = weighed.and_then(|to| to.preparation) {
        parts.push(format!("ready in {ready_s:.2} s, a stall of {stall_s:.2} s, {work_s:.2} s of its work"));
        parts.push(megabytes(bytes));
    }
    parts.extend(lag_tokens.map(|lag| format!("{lag} tokens behind")));
    let there = |terms: &PeerTerms, place: &str| {
        let percent = terms.leave_probability * 100.0;
        format!("{:.2} s lost {place} (leaves before the end: {percent:.1} %)", terms.loss_s)
    };
    parts.extend(stay.map(|terms| there(terms, "if it stays")));
    parts.extend(weighed.map(|to| there(&to.terms, "there")));
    parts.extend(weighed.and_then(|to| to.veto).map(|veto| format!("it is no destination: {veto}")));
    (!parts.is_empty()).then(|| parts.join(", "))
}

pub(super) fn measured(figures: MeasuredMove) -> Option<String> {
    let seconds = |ms: u64| format!("{:.2} s", ms as f64 / 1000.0);
    let parts = [
        figures.ready_ms.map(|ms| format!("ready after {}", seconds(ms))),
        figures.stall_ms.map(|ms| format!("a stall of {}", seconds(ms))),
        figures.bytes.map(megabytes),
        figures.pulled_tokens.map(|tokens| format!("{tokens} tokens pulled")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{Epoch, Generation, PlanRefusal, PlanTerms, Term, Way};

    use super::*;

    fn record() -> MoveRecord {
        let terms = |peer: u8, loss_s| PeerTerms {
            peer: PeerId([peer; 32]),
            unfit: None,
            wait_s: 0.0,
            service_s: 2.0,
            loss_s,
            leave_probability: 0.5,
        };
        let preparation =
            PreparationTerms { way: Way::Hybrid, ready_s: 3.5, stall_s: 0.25, work_s: 1.5, bytes: 9_000_000 };
        let to =
            MoveTerms { terms: terms(2, 0.5), veto: None, preparation: Some(preparation), test: Some((1.5, 0.25)) };
        MoveRecord {
            at_ms: 12_340,
            decided_by: PeerId([3; 32]),
            generation: Generation { term: Term(4), number: 7 },
            epoch: Epoch(1),
            from: Some(PeerId([1; 32])),
            step: PlanStep::Prepare { destination: PeerId([2; 32]), way: Way::Hybrid },
            terms: PlanTerms { reason: PlanReason::PreparationPays, stay: Some(terms(1, 4.0)), weighed: vec![to] },
            lag_tokens: None,
            refused: None,
            outcome: None,
            measured: None,
        }
    }

    #[test]
    fn a_plan_is_told_with_its_reason_and_what_it_was_expected_to_cost() {
        let text = lines(&[record()]).join("\n");
        let (from, to) = (PeerId([1; 32]).short(), PeerId([2; 32]).short());
        for expected in [
            format!("12.34 s  prepare on {to} while {from} goes on, prefilling from one end, pulling from the other"),
            "(plan 7 of term 4, by ".to_owned(),
            "because what it saves if the worker leaves is more than it costs (1.50 s against 0.25 s)".to_owned(),
            "ready in 3.50 s, a stall of 0.25 s, 1.50 s of its work, 9.0 MB".to_owned(),
            "4.00 s lost if it stays (leaves before the end: 50.0 %), 0.50 s lost there".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected:?} is missing in\n{text}");
        }
    }

    #[test]
    fn what_came_of_a_plan_is_told_too() {
        let refused = MoveRecord { refused: Some(PlanRefusal::NearlyDone), ..record() };
        let figures = MeasuredMove { stall_ms: Some(180), ready_ms: Some(2500), ..MeasuredMove::default() };
        let done = MoveRecord { measured: Some(figures), outcome: Some("released".into()), ..record() };
        let text = lines(&[refused, done]).join("\n");
        for expected in [
            "not followed: the answer is all but complete",
            "measured: ready after 2.50 s, a stall of 0.18 s",
            "came to nothing: released",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
        }
    }

    #[test]
    fn nothing_is_said_where_nothing_was_planned() {
        assert!(lines(&[]).is_empty());
    }
}
