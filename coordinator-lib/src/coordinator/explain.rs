//! Why a plan is what it is, as it travels: the test that decided, the chosen first, then the rejected.

use idlewild_protocol::{
    MAX_WEIGHED_PER_PLAN, MoveTerms, PeerId, PeerTerms, PlanReason, PlanTerms, PreparationTerms, Veto, Way,
};

use super::candidate::Candidate;
use super::place::{finite_s, fit_terms};
use super::report::residual;
use super::search::Shortlist;
use crate::cost::{Method, Preparation, Terms};
use crate::policy::overlapped::{Because, CandidateTerms, Decision};
use crate::policy::{Migration, MigrationLimits, Misfit, MoveCandidate};
use idlewild_protocol::RequestReport;

/// Of a request that is placed anew: what it would cost to stay, and the best of the rest, best first.
pub(super) fn of_placement(reason: PlanReason, stay: Option<(PeerId, Terms)>, list: &Shortlist<'_>) -> PlanTerms {
    let weighed = list.best.iter().map(|weighed| bare(fit_terms(weighed.candidate.peer, &weighed.terms)));
    PlanTerms {
        reason,
        stay: stay.map(|(peer, terms)| fit_terms(peer, &terms)),
        weighed: weighed.take(MAX_WEIGHED_PER_PLAN).collect(),
    }
}

/// Of the corrected rule's decision about a request on `source`; none where it is to do nothing.
pub(super) fn of_tests(
    decision: &Decision<PeerId>,
    report: &RequestReport,
    source: PeerId,
    destinations: &[Candidate<'_>],
) -> Option<PlanTerms> {
    let reason = reason(decision.because)?;
    let stay = decision.stay.map(|stay| PeerTerms {
        peer: source,
        unfit: None,
        wait_s: 0.0,
        service_s: finite_s(stay.time_s),
        loss_s: finite_s(stay.loss_s),
        leave_probability: stay.leave_probability.clamp(0.0, 1.0),
    });
    let of = |terms: &CandidateTerms<PeerId>| {
        let host = destinations.iter().find(|host| host.peer == terms.host)?;
        Some(MoveTerms {
            terms: terms_there(report, host, terms.loss_s),
            veto: terms.veto,
            preparation: terms.preparation.as_ref().map(preparation_terms),
            test: compared(reason, terms),
        })
    };
    let (chosen, rejected) = (decision.chosen(), decision.candidates.iter());
    let rejected = rejected.filter(|terms| chosen.is_none_or(|chosen| chosen.host != terms.host));
    let weighed = chosen.into_iter().chain(rejected).filter_map(of).take(MAX_WEIGHED_PER_PLAN).collect();
    Some(PlanTerms { reason, stay, weighed })
}

/// Of a move by the rule as given to `to`, which costs its whole preparation as a stall.
pub(super) fn of_migration(
    migration: &Migration<PeerId>,
    limits: &MigrationLimits,
    (source, to): (PeerId, PeerId),
) -> PlanTerms {
    let of = |candidate: &MoveCandidate<PeerId>| {
        let cost_s = finite_s(candidate.planned.cost_s);
        let (way, work_s) = match candidate.planned.method {
            Method::Transfer => (Way::StoppedSplit, 0.0),
            Method::Recompute => (Way::Ids, cost_s),
        };
        MoveTerms {
            terms: fit_terms(candidate.peer, &candidate.terms),
            veto: candidate.misfit.map(|misfit| match misfit {
                Misfit::NoRoom { .. } => Veto::NoRoom,
                Misfit::NotMeasured => Veto::NotMeasured,
            }),
            preparation: Some(PreparationTerms { way, ready_s: 0.0, stall_s: cost_s, work_s, bytes: 0 }),
            test: Some((finite_s(candidate.risk_gain_s), finite_s(limits.hysteresis_s))),
        }
    };
    let chosen = migration.candidates.iter().filter(|candidate| candidate.peer == to);
    let rejected = migration.candidates.iter().filter(|candidate| candidate.peer != to);
    PlanTerms {
        reason: PlanReason::RiskFalls,
        stay: migration.stay.as_ref().map(|terms| fit_terms(source, terms)),
        weighed: chosen.chain(rejected).map(of).take(MAX_WEIGHED_PER_PLAN).collect(),
    }
}

fn bare(terms: PeerTerms) -> MoveTerms {
    MoveTerms { terms, veto: None, preparation: None, test: None }
}

/// T, L and P of the rest of the request on a destination that has its context.
fn terms_there(report: &RequestReport, host: &Candidate<'_>, loss_s: Option<f64>) -> PeerTerms {
    let offer = host.offer();
    let service_s = finite_s(residual(report).mean_tokens() / offer.decode_tps);
    let time_s = finite_s(offer.wait_s) + service_s;
    PeerTerms {
        peer: host.peer,
        unfit: None,
        wait_s: finite_s(offer.wait_s),
        service_s,
        loss_s: finite_s(loss_s.unwrap_or(0.0)),
        leave_probability: host.hazard().leave_probability(time_s).clamp(0.0, 1.0),
    }
}

fn preparation_terms(preparation: &Preparation) -> PreparationTerms {
    PreparationTerms {
        way: preparation.way,
        ready_s: finite_s(preparation.ready_s),
        stall_s: finite_s(preparation.stall_s),
        work_s: finite_s(preparation.destination_work_s),
        bytes: preparation.bytes as u64,
    }
}

/// Both sides of the test that decided.
fn compared(reason: PlanReason, terms: &CandidateTerms<PeerId>) -> Option<(f64, f64)> {
    let sides = match reason {
        PlanReason::PreparationPays | PlanReason::NoPreparationPays => {
            let test = terms.prepare?;
            (test.saved_s, test.price_s * test.share)
        }
        PlanReason::StandbyPays | PlanReason::StandbyDoesNotPay => {
            let test = terms.hold?;
            let leaves = test.leave_probability;
            (leaves * test.context_at_failure_tokens, (1.0 - leaves) * test.following_tokens)
        }
        PlanReason::MovePays => {
            let test = terms.commit?;
            (test.risk_gain_s(), test.risk_limit_s)
        }
        PlanReason::Notice => (terms.notice?.gain_s, 0.0),
        PlanReason::StandbyUseless
        | PlanReason::Orphaned
        | PlanReason::Queued
        | PlanReason::RiskFalls
        | PlanReason::Asked => return None,
    };
    Some((finite_s(sides.0), finite_s(sides.1)))
}

/// Why something is to be done; none of a decision to do nothing.
fn reason(because: Because) -> Option<PlanReason> {
    match because {
        Because::PreparationPays => Some(PlanReason::PreparationPays),
        Because::NoPreparationPays => Some(PlanReason::NoPreparationPays),
        Because::StandbyPays => Some(PlanReason::StandbyPays),
        Because::StandbyDoesNotPay => Some(PlanReason::StandbyDoesNotPay),
        Because::MovePays => Some(PlanReason::MovePays),
        Because::StandbyUseless => Some(PlanReason::StandbyUseless),
        Because::Notice => Some(PlanReason::Notice),
        Because::NotAsked
        | Because::SourceNotMeasured
        | Because::NobodyElse
        | Because::AllVetoed
        | Because::DoneBeforeNotice
        | Because::NoticeWithoutBetter => None,
    }
}
