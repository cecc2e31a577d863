//! The seam to the policy's tests: one running request, the few peers that it might move to, and what is to be done.

use idlewild_protocol::{PeerId, PlanStep, PlanTerms, RequestReport, Standby, StandbyState};

use super::Coordinator;
use super::candidate::Candidate;
use super::explain::{of_migration, of_tests};
use super::report::{residual, standby, work_here};
use super::search::Shortlist;
use crate::Now;
use crate::cost::{Method, Path, Way, way_by_phi};
use crate::policy::overlapped::{self, Leaving, RunningRequest};
use crate::policy::{Fleet, FleetPeer, HazardAwarePolicy, MigrationModel, MoveDecision, Policy, Running};
use crate::view::View;

/// Expected seconds of stall below which no preparation is worth a message, however cheap.
const NEGLIGIBLE_S: f64 = 0.01;

/// A running request, and everybody who counts.
#[derive(Debug)]
pub(super) struct Weighing<'a> {
    pub(super) report: &'a RequestReport,
    pub(super) source: Candidate<'a>,
    pub(super) leaving: Leaving,
    /// Destinations, and who would take over.
    pub(super) list: Shortlist<'a>,
    /// The standby, where it can still take over.
    pub(super) standby: Option<Candidate<'a>>,
}

/// Whether anything can be worth doing about the request, by its own risk alone: no preparation saves more than all that
/// a departure is expected to cost, and no move more than its loss. Most requests are done with here.
pub(super) fn is_at_risk(policy: &HazardAwarePolicy, weighing: &Weighing<'_>) -> bool {
    if weighing.leaving != Leaving::Unannounced || weighing.report.standby.is_some() {
        return true;
    }
    let source = &weighing.source;
    let Some(taker) = weighing.list.takers.of(source.peer) else { return false };
    let residual = residual(weighing.report);
    let (taker, decode_tps) = (taker.offer(), source.offer().decode_tps);
    let leaves = source.hazard().leave_probability(residual.most_tokens() / decode_tps);
    let context_tokens = f64::from(weighing.report.context_tokens()) + residual.most_tokens();
    let rebuild_s = context_tokens / taker.prefill_tps;
    match policy.migration {
        MigrationModel::Blocking => {
            let fixed_s = policy.parameters.recompute_overhead_s + policy.parameters.stall_penalty_s;
            leaves * (rebuild_s + fixed_s) > policy.limits.hysteresis_s
        }
        MigrationModel::Overlapped => {
            let recompute_s = policy.overlapped.overheads.recompute_s;
            leaves * (rebuild_s + recompute_s + taker.wait_s) > NEGLIGIBLE_S
        }
    }
}

/// What to do with the request, and why; none where it is as it should be.
pub(super) fn decide(
    policy: &HazardAwarePolicy,
    view: &View,
    weighing: &Weighing<'_>,
) -> Option<(PlanStep, PlanTerms)> {
    match policy.migration {
        MigrationModel::Blocking => decide_as_given(policy, view, weighing),
        MigrationModel::Overlapped => decide_corrected(policy, view, weighing),
    }
}

fn decide_corrected(policy: &HazardAwarePolicy, view: &View, weighing: &Weighing<'_>) -> Option<(PlanStep, PlanTerms)> {
    let (report, source) = (weighing.report, &weighing.source);
    let destinations = destinations(weighing);
    let candidates: Vec<_> = destinations
        .iter()
        .map(|to| overlapped::Candidate { host: to.host(), path: Some(kv_path(view, report, source, to)) })
        .collect();
    let decision = policy.decide(&RunningRequest {
        // It does not wait for the queue behind it.
        source: source.host_waiting(0.0),
        context_tokens: report.context_tokens(),
        residual: residual(report),
        hops: report.hops,
        leaving: weighing.leaving,
        standby: report.standby.map(standby),
        candidates: &candidates,
    });
    let step = wanted(decision.action, report.standby.as_ref())?;
    Some((step, of_tests(&decision, report, source.peer, &destinations)?))
}

/// What is to be done where the request is not yet as it should be.
fn wanted(action: overlapped::Action<PeerId>, standby: Option<&Standby>) -> Option<PlanStep> {
    let state_at = |peer: PeerId| standby.filter(|standby| standby.peer == peer).map(|standby| standby.state);
    match action {
        overlapped::Action::Stay => None,
        overlapped::Action::Prepare { destination, way } => {
            match state_at(destination) {
                Some(StandbyState::Preparing | StandbyState::Holding) => None,
                // It has a part of the context already: to go on with that is to prepare it.
                Some(StandbyState::Paused) => Some(PlanStep::Hold { destination }),
                Some(StandbyState::Committing) | None => Some(PlanStep::Prepare { destination, way }),
            }
        }
        overlapped::Action::Hold { destination } => {
            (state_at(destination) != Some(StandbyState::Holding)).then_some(PlanStep::Hold { destination })
        }
        overlapped::Action::Pause { destination } => {
            (state_at(destination) != Some(StandbyState::Paused)).then_some(PlanStep::Pause { destination })
        }
        overlapped::Action::Commit { destination, way } => Some(PlanStep::Commit { destination, way }),
        overlapped::Action::Release { destination } => Some(PlanStep::Release { destination }),
    }
}

/// By the rule as given the source stops, and all of its context moves at once.
fn decide_as_given(policy: &HazardAwarePolicy, view: &View, weighing: &Weighing<'_>) -> Option<(PlanStep, PlanTerms)> {
    let running = Running {
        current: weighing.source.peer,
        work: work_here(weighing.report),
        own_load_s: 0.0,
        hops: weighing.report.hops,
    };
    let migration = policy.should_migrate(&fleet(view, weighing), &running);
    let MoveDecision::Move { to, planned } = migration.decision else { return None };
    let way = match planned.method {
        Method::Transfer => Way::StoppedSplit,
        Method::Recompute => Way::Ids,
    };
    let terms = of_migration(&migration, &policy.limits, (weighing.source.peer, to));
    Some((PlanStep::Commit { destination: to, way }, terms))
}

fn fleet<'a>(view: &View, weighing: &Weighing<'a>) -> Fleet<'a, PeerId> {
    let source = FleetPeer { load_s: 0.0, ..weighing.source.in_fleet() };
    let others = destinations(weighing);
    let link = |to: &Candidate<'_>| (source.id, to.peer, path(view, &weighing.source, to).goodput_bps);
    let links_bps = others.iter().map(link).collect();
    let peers = core::iter::once(source).chain(others.iter().map(Candidate::in_fleet)).collect();
    Fleet { links_bps, ..Fleet::new(peers) }
}

/// Each once: the standby, the best, and those who would take over.
fn destinations<'a>(weighing: &Weighing<'a>) -> Vec<Candidate<'a>> {
    let list = &weighing.list;
    let best = list.best.iter().map(|weighed| weighed.candidate);
    let mut all: Vec<Candidate<'a>> = Vec::with_capacity(list.best.len() + 3);
    for candidate in weighing.standby.into_iter().chain(best).chain(list.takers.all().iter().copied()) {
        if candidate.peer != weighing.source.peer && all.iter().all(|known| known.peer != candidate.peer) {
            all.push(candidate);
        }
    }
    all
}

impl Coordinator {
    /// How the context of a running request gets to a peer, by rates alone; as ids where the rates are not known.
    pub fn way(&self, now: Now, view: &View, report: &RequestReport, to: PeerId) -> Way {
        let candidate = |peer: PeerId| Candidate::of_report(now, view.peer(peer)?, report);
        let ends = report.worker().and_then(candidate).zip(candidate(to));
        let phi = ends.map_or(0.0, |(from, to)| {
            let bytes_per_token = f64::from(from.model.kv_bytes_per_token);
            let kv_tps = kv_path(view, report, &from, &to).kv_tps(bytes_per_token, f64::from(report.context_tokens()));
            kv_tps / to.offer().prefill_tps
        });
        way_by_phi(phi)
    }
}

/// The path of a request's KV cache, which carries none of a prompt that is still being read: it would come as slowly as it is
/// made, and whoever wants to prepare reads the prompt as soon.
fn kv_path(view: &View, report: &RequestReport, from: &Candidate<'_>, to: &Candidate<'_>) -> Path {
    let path = path(view, from, to);
    if report.done_tokens > 0 { path } else { Path { goodput_bps: 0.0, ..path } }
}

/// As measured between the two, else the slower of its ends; 0 bytes a second where neither is known. Engines compare
/// fingerprints before they send KV: here it is enough that a token of it takes as many bytes.
fn path(view: &View, from: &Candidate<'_>, to: &Candidate<'_>) -> Path {
    let link = view.link_between(from.peer, to.peer);
    let stated = || from.digest.up_bytes_per_s.min(to.digest.down_bytes_per_s);
    Path {
        goodput_bps: link.and_then(|link| link.bytes_per_s).unwrap_or_else(stated) as f64,
        round_trip_s: link.map_or(0.0, |link| f64::from(link.rtt_us) / 1e6),
        budget_bytes: None,
        has_same_layout: from.model.kv_bytes_per_token == to.model.kv_bytes_per_token,
    }
}
