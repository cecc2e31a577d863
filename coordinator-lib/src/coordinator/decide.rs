//! The seam to the policy: one running request, the few peers that it might move to, and what the policy says of them.

use idlewild_protocol::PeerId;

use super::candidate::Candidate;
use super::place::fit_terms;
use super::plan::{Action, Destination, Explain, Test, Transition};
use super::report::Report;
use super::search::{Search, Shortlist};
use crate::policy::{Fleet, FleetPeer, HazardAwarePolicy, Migration, MoveCandidate, MoveDecision, Policy, Running};
use crate::view::View;

/// A running request, and everybody who counts.
#[derive(Debug)]
pub(super) struct Weighing<'a> {
    pub(super) report: &'a Report,
    pub(super) source: Candidate<'a>,
    /// Destinations, and who would rebuild the context.
    pub(super) list: Shortlist<'a>,
}

/// Whether any move can be worth it, by the request's own risk alone: no move saves more than all of the expected loss,
/// and each must save more than the hysteresis. Most requests are done with here.
pub(super) fn may_move(policy: &HazardAwarePolicy, search: &Search<'_>, weighing: &Weighing<'_>) -> bool {
    let stay = search.weigh_waiting(&weighing.source, 0.0, &weighing.list.takers);
    stay.loss_s > policy.limits.hysteresis_s
}

/// What to do with the request, and why; none where it is to be left alone.
pub(super) fn decide(policy: &HazardAwarePolicy, view: &View, weighing: &Weighing<'_>) -> Option<(Action, Explain)> {
    let fleet = fleet(view, weighing);
    let running = Running {
        current: weighing.source.peer,
        work: weighing.report.work_here(),
        own_load_s: 0.0,
        hops: weighing.report.hops,
    };
    let migration = policy.should_migrate(&fleet, &running);
    let MoveDecision::Move { to, .. } = migration.decision else { return None };
    Some((Action::Commit { destination: to }, explain(&running, &migration, to)))
}

/// The source first; it does not wait for the queue behind it. Then the others, each once.
fn fleet<'a>(view: &View, weighing: &Weighing<'a>) -> Fleet<'a, PeerId> {
    let source = FleetPeer { load_s: 0.0, ..weighing.source.in_fleet() };
    let mut peers = vec![source];
    let list = &weighing.list;
    for candidate in list.best.iter().map(|weighed| &weighed.candidate).chain(list.takers.all()) {
        if peers.iter().all(|known| known.id != candidate.peer) {
            peers.push(candidate.in_fleet());
        }
    }
    let mut fleet = Fleet::new(peers);
    let links = list.best.iter().map(|weighed| {
        let to = &weighed.candidate;
        (source.id, to.peer, link_bps(view, &weighing.source, to))
    });
    fleet.links_bps = links.collect();
    fleet
}

/// As measured between the two, else the slower of its ends; 0 where neither is known.
fn link_bps(view: &View, from: &Candidate<'_>, to: &Candidate<'_>) -> f64 {
    let measured = view.link_between(from.peer, to.peer).and_then(|link| link.bytes_per_s);
    measured.unwrap_or_else(|| from.digest.up_bytes_per_s.min(to.digest.down_bytes_per_s)) as f64
}

fn explain(running: &Running<PeerId>, migration: &Migration<PeerId>, chosen: PeerId) -> Explain {
    let mut candidates: Vec<&MoveCandidate<PeerId>> = migration.candidates.iter().collect();
    candidates.sort_by(|a, b| (a.peer != chosen).cmp(&(b.peer != chosen)).then(b.score_s().total_cmp(&a.score_s())));
    let destination = |candidate: &&MoveCandidate<PeerId>| Destination {
        terms: fit_terms(candidate.peer, &candidate.terms),
        transition: Some(Transition {
            cost_s: bounded(candidate.planned.cost_s),
            risk_gain_s: bounded(candidate.risk_gain_s),
            time_delta_s: bounded(candidate.time_delta_s),
        }),
    };
    Explain {
        test: Test::Risk,
        stay: migration.stay.map(|terms| fit_terms(running.current, &terms)),
        destinations: candidates.iter().map(destination).collect(),
    }
}

/// A figure that people and messages can take: what is not finite is for ever, 30 years.
fn bounded(x: f64) -> f64 {
    if x.is_nan() { 1e9 } else { x.clamp(-1e9, 1e9) }
}
