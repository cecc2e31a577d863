//! Looking at one request that its origin reports.
//!
//! ```text
//! nobody has it, its worker left -> Replace, where its standby still holds a part of the context too
//! its standby is unfit -----------> Release
//! only queued --------------------> done sooner elsewhere? Replace
//! runs ---------------------------> the policy's tests over a few destinations
//! its worker is leaving ----------> the same, told of the notice
//! ```
//!
//! A plan says what is wanted. It is made anew each round until a report shows it, and not after: whoever missed one gets
//! the next, and a new leader has nothing to remember.

use idlewild_protocol::{
    DepartureCause, PeerId, PeerState, PlanReason, PlanStep, PlanTerms, RequestId, RequestReport, RequestStage,
    StandbyState,
};

use super::Coordinator;
use super::candidate::Candidate;
use super::decide::{Weighing, decide, is_at_risk};
use super::explain::of_placement;
use super::fitness::{Question, Room};
use super::ledger::Followed;
use super::place::reservation;
use super::report;
use super::reservations::Reservation;
use super::search::{Search, Shortlist, Weighed};
use crate::Now;
use crate::cost::{Terms, Work};
use crate::policy::MigrationModel;
use crate::policy::overlapped::Leaving;
use crate::view::View;

/// Destinations that are weighed for one request, beside its standby and those who would take over.
const DESTINATIONS_MAX: usize = 4;

/// Peers that are looked up to find them: the first by T of all that are fit, enough to hold some that stay.
const LOOKS_MAX: usize = 24;

/// What is decided of a request.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) step: PlanStep,
    pub(super) terms: PlanTerms,
    /// What it puts on a peer before a digest shows it.
    pub(super) reservation: Option<Reservation>,
}

/// One look at one request.
struct Look<'a> {
    coordinator: &'a Coordinator,
    now: Now,
    view: &'a View,
    origin: PeerId,
    report: &'a RequestReport,
}

impl Coordinator {
    /// What to do with `request` now; none where it is to be left alone.
    pub(super) fn look_at(&self, now: Now, view: &View, request: RequestId) -> Option<Decided> {
        let Followed { origin, report, .. } = self.ledger.followed(request)?;
        Look { coordinator: self, now, view, origin: *origin, report }.decide()
    }
}

impl<'a> Look<'a> {
    fn decide(&self) -> Option<Decided> {
        let (RequestStage::Queued { worker, .. } | RequestStage::Running { worker }) = self.report.stage else {
            return self.place_again(PlanReason::Orphaned, None);
        };
        if self.is_lost(worker) {
            return self.place_again(PlanReason::Orphaned, Some(worker));
        }
        // It is being handed over: what is wanted next shows in the report after.
        if self.report.standby.is_some_and(|standby| standby.state == StandbyState::Committing) {
            return None;
        }
        if let Some(release) = self.release_unfit() {
            return Some(release);
        }
        match (self.report.stage, self.leaving(worker)) {
            (RequestStage::Queued { wait_ms, .. }, Leaving::Unannounced) => {
                self.place_queued(worker, f64::from(wait_ms) / 1000.0)
            }
            (RequestStage::Running { .. }, leaving) if leaving == Leaving::Unannounced || self.is_corrected() => {
                self.weigh_moves(worker, leaving)
            }
            // Nothing is prepared where it only waits, and the rule as given knows no notice.
            (RequestStage::Orphaned | RequestStage::Queued { .. } | RequestStage::Running { .. }, _) => {
                self.place_again(PlanReason::Notice, Some(worker))
            }
        }
    }

    fn is_corrected(&self) -> bool {
        self.coordinator.config.policy.migration == MigrationModel::Overlapped
    }

    /// Whether the peer has departed as far as we know. One of which we never heard is its origin's business.
    fn is_lost(&self, peer: PeerId) -> bool {
        self.view.peer(peer).is_none() && self.view.departure(peer).is_some()
    }

    /// What the peer has said of its departure, by its goodbye or its digest.
    fn leaving(&self, peer: PeerId) -> Leaving {
        let announced = |cause, notice_ms| {
            let decodes = cause != DepartureCause::OwnerReturned;
            Leaving::Announced { cause, notice_ms, decodes }
        };
        if let Some((cause, notice)) = self.coordinator.notice_of(self.now, peer) {
            return announced(cause, u32::try_from(notice.as_millis()).unwrap_or(u32::MAX));
        }
        let Some(view) = self.view.peer(peer) else { return Leaving::Unannounced };
        match view.digest.as_ref().map(|digest| digest.state) {
            Some(PeerState::Leaving { cause, notice_ms }) => {
                let age_ms = self.now.saturating_sub(view.heard_at).as_millis();
                announced(cause, notice_ms.saturating_sub(u32::try_from(age_ms).unwrap_or(u32::MAX)))
            }
            Some(PeerState::Busy) => announced(DepartureCause::OwnerReturned, 0),
            Some(PeerState::Serving) | None => Leaving::Unannounced,
        }
    }

    fn question(&self, work: Work, excluded: &'a [PeerId]) -> Question<'a> {
        Question {
            now: self.now,
            view: self.view,
            origin: self.origin,
            model: self.report.model,
            work,
            residual: report::residual(self.report),
            held: report::held(self.report),
            excluded,
        }
    }

    fn search(&self, question: Question<'a>) -> Search<'a> {
        self.coordinator.search(question, DESTINATIONS_MAX, LOOKS_MAX)
    }

    fn candidate(&self, question: &Question<'a>, peer: PeerId) -> Option<Candidate<'a>> {
        let view = question.view.peer(peer)?;
        Candidate::new(question, &self.coordinator.reservations, Room::Scant, peer, view).ok()
    }

    /// Its peer goes, or is gone: on with whoever is best now.
    fn place_again(&self, reason: PlanReason, from: Option<PeerId>) -> Option<Decided> {
        let excluded = self.excluded(from);
        let question = self.question(report::work_anew(self.report), &excluded);
        let list = self.coordinator.search(question, DESTINATIONS_MAX, usize::MAX).run();
        self.replace(reason, None, &question, &list)
    }

    /// A request that only waits goes where it would be done sooner, by more than the policy's limit.
    fn place_queued(&self, worker: PeerId, wait_s: f64) -> Option<Decided> {
        let question = self.question(report::work_anew(self.report), report::excluded(self.report));
        let search = self.search(question);
        let mut list = search.run_in(Room::Free);
        list.best.retain(|weighed| weighed.candidate.peer != worker);
        let stay = self.source(worker).map(|here| search.weigh_waiting(&here, wait_s, &list.takers));
        let policy = &self.coordinator.config.policy;
        let gain_s =
            if self.is_corrected() { policy.overlapped.limits.requeue_gain_s } else { policy.limits.hysteresis_s };
        let best_s = list.best.first()?.terms.expected_s();
        let is_worth_it = stay.is_none_or(|stay| stay.expected_s() - best_s > gain_s);
        if !is_worth_it {
            return None;
        }
        self.replace(PlanReason::Queued, stay.map(|terms| (worker, terms)), &question, &list)
    }

    fn replace(
        &self,
        reason: PlanReason,
        stay: Option<(PeerId, Terms)>,
        question: &Question<'_>,
        list: &Shortlist<'_>,
    ) -> Option<Decided> {
        let chosen = list.best.first()?;
        Some(Decided {
            step: PlanStep::Replace { worker: chosen.candidate.peer, fallback: chosen.fallback },
            terms: of_placement(reason, stay, list),
            reservation: Some(reservation(self.report.request, question, chosen)),
        })
    }

    /// A standby that could not take over any more gives its memory back.
    fn release_unfit(&self) -> Option<Decided> {
        let standby = self.report.standby?;
        let question = self.question(report::work_anew(self.report), report::excluded(self.report));
        if self.candidate(&question, standby.peer).is_some() {
            return None;
        }
        let terms = PlanTerms::unweighed(PlanReason::StandbyUseless);
        Some(Decided { step: PlanStep::Release { destination: standby.peer }, terms, reservation: None })
    }

    fn weigh_moves(&self, worker: PeerId, leaving: Leaving) -> Option<Decided> {
        let policy = &self.coordinator.config.policy;
        let source = self.source(worker)?;
        let excluded = self.excluded(Some(worker));
        let question = self.question(report::work_anew(self.report), &excluded);
        let search = self.search(question);
        let list = Shortlist { takers: search.takers_in(Room::Free), ..Shortlist::default() };
        let standby = self.report.standby.and_then(|standby| self.candidate(&question, standby.peer));
        let mut weighing = Weighing { report: self.report, source, leaving, list, standby };
        if !is_at_risk(policy, &weighing) {
            return None;
        }
        weighing.list = search.run_beside(Room::Free, weighing.list.takers);
        let (step, terms) = decide(policy, self.view, &weighing)?;
        // What a standby takes is in its digest already.
        let newcomer = step.taker().filter(|peer| Some(*peer) != weighing.standby.map(|standby| standby.peer));
        let chosen = weighing.list.best.iter().find(|w| Some(w.candidate.peer) == newcomer);
        let reservation = chosen.map(|chosen: &Weighed<'_>| reservation(self.report.request, &question, chosen));
        Some(Decided { step, terms, reservation })
    }

    /// The peer that runs it, or has it in its queue, whatever its digest says of taking more.
    fn source(&self, worker: PeerId) -> Option<Candidate<'a>> {
        Candidate::of_report(self.now, self.view.peer(worker)?, self.report)
    }

    /// Who may not take the request: those that failed it, and the peer that it leaves.
    fn excluded(&self, from: Option<PeerId>) -> Vec<PeerId> {
        report::excluded(self.report).iter().copied().chain(from).collect()
    }
}
