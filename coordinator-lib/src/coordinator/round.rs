//! Looking at the requests that run: one at a time, a slice of them a call.
//!
//! ```text
//! worker left ----------> a standby that holds it? Commit : Replace
//! worker is leaving ----> the same, ahead of it
//! nobody has it --------> Replace
//! only queued ----------> done sooner elsewhere? Replace
//! runs -----------------> the policy's tests over a few destinations
//! its standby is unfit -> Release
//! ```
//!
//! A plan says what is wanted. It is made anew each round until a report shows it, and not after: whoever missed one gets
//! the next, and a new leader has nothing to remember.

use idlewild_protocol::{PeerId, PeerState, RequestId};

use super::Coordinator;
use super::candidate::Candidate;
use super::decide::{Weighing, decide, may_move};
use super::fitness::{Question, Room};
use super::ledger::Followed;
use super::place::{fit_terms, reservation};
use super::plan::{Action, Destination, Explain, Test};
use super::report::{Report, Stage, StandbyState};
use super::reservations::Reservation;
use super::rule::Takers;
use super::search::{Shortlist, Weighed};
use crate::Now;
use crate::cost::Terms;
use crate::view::View;

/// Destinations that are weighed for one request.
const DESTINATIONS_MAX: usize = 8;

/// Peers that are looked up to find them.
const LOOKS_MAX: usize = 48;

/// What is decided of a request.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) action: Action,
    pub(super) explain: Explain,
    /// What it puts on a peer before a digest shows it.
    pub(super) reservation: Option<Reservation>,
}

/// One look at one request.
struct Look<'a> {
    coordinator: &'a Coordinator,
    now: Now,
    view: &'a View,
    origin: PeerId,
    report: &'a Report,
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
        match self.report.stage {
            Stage::Orphaned => self.take_over(Test::Orphaned, None),
            Stage::Queued { worker, .. } | Stage::Running { worker } if self.is_lost(worker) => {
                self.take_over(Test::Orphaned, Some(worker))
            }
            Stage::Queued { worker, .. } | Stage::Running { worker } if self.is_leaving(worker) => {
                self.take_over(Test::Notice, Some(worker))
            }
            Stage::Queued { worker, wait_ms } => self.place_queued(worker, f64::from(wait_ms) / 1000.0),
            Stage::Running { worker } => self.release_unfit().or_else(|| self.weigh_moves(worker)),
        }
    }

    /// Whether the peer has departed as far as we know. One of which we never heard is its origin's business.
    fn is_lost(&self, peer: PeerId) -> bool {
        self.view.peer(peer).is_none() && self.view.departure(peer).is_some()
    }

    /// Whether the peer says that it will run nothing much longer.
    fn is_leaving(&self, peer: PeerId) -> bool {
        let state = self.view.peer(peer).and_then(|view| view.digest.as_ref()).map(|digest| digest.state);
        self.coordinator.has_notice(self.now, peer)
            || matches!(state, Some(PeerState::Leaving { .. } | PeerState::Busy))
    }

    fn question(&self, work: crate::cost::Work, excluded: &'a [PeerId]) -> Question<'a> {
        Question { now: self.now, view: self.view, origin: self.origin, model: self.report.model, work, excluded }
    }

    /// The request's peer goes, or is gone: on with whoever holds its context, else with whoever is best.
    fn take_over(&self, test: Test, from: Option<PeerId>) -> Option<Decided> {
        let excluded = self.excluded(from);
        let question = self.question(self.report.work_anew(), &excluded);
        let standby = self.report.standby.filter(|standby| standby.state == StandbyState::Holding);
        if let Some(standby) = standby
            && let Some(candidate) = candidate(&question, self.coordinator, Room::Scant, standby.peer)
        {
            let search = self.coordinator.search(question, 1, LOOKS_MAX);
            let terms = search.weigh(candidate, &Takers::default()).terms;
            let explain = Explain { test, stay: None, destinations: vec![destination(candidate.peer, &terms)] };
            return Some(Decided { action: Action::Commit { destination: standby.peer }, explain, reservation: None });
        }
        let list = self.coordinator.search(question, DESTINATIONS_MAX, LOOKS_MAX).run();
        self.replace(test, None, &question, &list)
    }

    /// A request that only waits moves to where it would be done sooner, by more than the hysteresis.
    fn place_queued(&self, worker: PeerId, wait_s: f64) -> Option<Decided> {
        let question = self.question(self.report.work_anew(), self.report.excluded());
        let search = self.coordinator.search(question, DESTINATIONS_MAX, LOOKS_MAX);
        let list = search.run_in(Room::Free);
        let here = candidate(&question, self.coordinator, Room::Scant, worker);
        let stay = here.map(|here| search.weigh_waiting(&here, wait_s, &list.takers));
        let best = list.best.iter().find(|weighed| weighed.candidate.peer != worker)?;
        let hysteresis_s = self.coordinator.config.policy.limits.hysteresis_s;
        let is_worse = stay.is_none_or(|stay| best.terms.expected_s() + hysteresis_s < stay.expected_s());
        let others: Vec<Weighed<'a>> = list.best.iter().filter(|w| w.candidate.peer != worker).copied().collect();
        let others = Shortlist { best: others, ..list };
        is_worse.then(|| self.replace(Test::Queued, stay.map(|terms| (worker, terms)), &question, &others))?
    }

    fn replace(
        &self,
        test: Test,
        stay: Option<(PeerId, Terms)>,
        question: &Question<'_>,
        list: &Shortlist<'_>,
    ) -> Option<Decided> {
        let chosen = list.best.first()?;
        let explain = Explain {
            test,
            stay: stay.map(|(peer, terms)| fit_terms(peer, &terms)),
            destinations: list.best.iter().map(|w| destination(w.candidate.peer, &w.terms)).collect(),
        };
        Some(Decided {
            action: Action::Replace { worker: chosen.candidate.peer, fallback: chosen.fallback },
            explain,
            reservation: Some(reservation(self.report.request, question, chosen)),
        })
    }

    /// A standby that could not take over any more gives its memory back.
    fn release_unfit(&self) -> Option<Decided> {
        let standby = self.report.standby?;
        let question = self.question(self.report.work_anew(), self.report.excluded());
        if candidate(&question, self.coordinator, Room::Scant, standby.peer).is_some() {
            return None;
        }
        let explain = Explain { test: Test::StandbyUnfit, stay: None, destinations: Vec::new() };
        Some(Decided { action: Action::Release { destination: standby.peer }, explain, reservation: None })
    }

    fn weigh_moves(&self, worker: PeerId) -> Option<Decided> {
        let policy = &self.coordinator.config.policy;
        let here = self.question(self.report.work_here(), &[]);
        let source = candidate(&here, self.coordinator, Room::Scant, worker)?;
        let excluded = self.excluded(Some(worker));
        let question = self.question(self.report.work_anew(), &excluded);
        let search = self.coordinator.search(question, DESTINATIONS_MAX, LOOKS_MAX);
        let list = Shortlist { takers: search.takers_in(Room::Free), ..Shortlist::default() };
        let mut weighing = Weighing { report: self.report, source, list };
        if !may_move(policy, &self.coordinator.search(here, 0, 0), &weighing) {
            return None;
        }
        weighing.list = search.run_in(Room::Free);
        let (action, explain) = decide(policy, self.view, &weighing)?;
        let chosen = weighing.list.best.iter().find(|w| Some(w.candidate.peer) == action.destination());
        let reservation = chosen.map(|chosen| reservation(self.report.request, &question, chosen));
        Some(Decided { action, explain, reservation })
    }

    /// Who may not take the request: those that failed it, and the peer that it leaves.
    fn excluded(&self, from: Option<PeerId>) -> Vec<PeerId> {
        self.report.excluded().iter().copied().chain(from).collect()
    }
}

fn candidate<'a>(question: &Question<'a>, coordinator: &Coordinator, room: Room, peer: PeerId) -> Option<Candidate<'a>> {
    let view = question.view.peer(peer)?;
    Candidate::new(question, &coordinator.reservations, room, peer, view).ok()
}

fn destination(peer: PeerId, terms: &Terms) -> Destination {
    Destination { terms: fit_terms(peer, terms), transition: None }
}
