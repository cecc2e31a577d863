//! The machine: what happens goes in by `handle`, what is to be done comes out by `poll_output`, and `poll_timeout` says
//! when it wants to be asked again if nothing happens.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use idlewild_protocol::{
    DepartureCause, Generation, PeerId, PeerState, Plan, PlanRefused, RequestId, RequestReport, Term,
};

use super::interface::{CoordinatorConfig, Input, Output};
use super::ledger::Ledger;
use super::reservations::Reservations;
use crate::Now;
use crate::cost::{AgreedTimes, Overheads};
use crate::view::View;

/// Requests that one call looks at. A round over many is spread over calls, so that answers and beats need not wait.
const SLICE: usize = 256;

/// Outputs that wait for the shell; beyond that the oldest are dropped. An origin that gets no answer decides by itself, and
/// a plan that is still wanted is made anew in the next round.
const OUTPUTS_MAX: usize = 4096;

/// Announced departures that are remembered.
const NOTICES_MAX: usize = 4096;

/// How far a refusal may raise the number of the next plan: no peer uses the numbers up.
const CATCH_UP_MAX: u64 = 1 << 32;

/// How long after an announced departure its peer is not believed to stay: a digest of it would have come by then.
const NOTICE_LINGERS: Duration = Duration::from_secs(30);

/// Answers placements for anybody; while it leads it also follows what runs and proposes plans.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coordinator {
    /// With what was measured of moves in place of what is assumed.
    pub(super) config: CoordinatorConfig,
    /// As it was given.
    given: CoordinatorConfig,
    /// When to look again at what moves take.
    next_look: Now,
    pub(super) reservations: Reservations,
    pub(super) ledger: Ledger,
    /// The latest election that we know of, and the plans made in it.
    made: Generation,
    is_leading: bool,
    next_round: Now,
    notices: BTreeMap<PeerId, (DepartureCause, Now)>,
    outputs: VecDeque<Output>,
}

impl Coordinator {
    /// One that has placed nothing yet.
    pub fn new(config: CoordinatorConfig) -> Self {
        Self { config, given: config, ..Self::default() }
    }

    /// Takes in what happened, as `view` has it.
    pub fn handle(&mut self, now: Now, view: &View, input: Input) {
        match input {
            Input::Leading { term } => self.handle_election(now, term, true),
            Input::Following { term } => self.handle_election(now, term, false),
            Input::Place { origin, request } => {
                let reply = self.answer(now, view, origin, &request);
                self.say(Output::Answer { origin, reply });
            }
            Input::Report { origin, report } => self.handle_report(now, view, origin, report),
            Input::Refused { origin, refused } => self.handle_refused(now, origin, &refused),
            Input::Ended { origin, request } => self.ledger.end(origin, request),
            Input::PeerChanged { peer } => self.handle_peer(view, peer),
            Input::Notice { peer, cause, notice } => self.handle_notice(now, peer, cause, notice),
            Input::Tick => self.handle_tick(now, view),
        }
    }

    /// The next thing to do, until none is left.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to give it an [`Input::Tick`] if nothing else happens before. A time that has passed means at once: a round is
    /// under way.
    pub fn poll_timeout(&self) -> Option<Now> {
        if self.ledger.has_due() {
            return Some(Now::ZERO);
        }
        (self.is_leading && self.ledger.len() > 0).then_some(self.next_round)
    }

    /// What moves take, as far as the peers of `view` have measured it, and else as assumed.
    pub fn overheads(&self, view: &View) -> Overheads {
        let assumed = self.given.policy.overlapped.overheads;
        assumed.as_agreed(&AgreedTimes::of(view.move_times(), &assumed))
    }

    /// Goes by what the peers of `view` have measured, from now on. Looks once in a round's time: they are many.
    pub(super) fn learn_overheads(&mut self, now: Now, view: &View) {
        if now < self.next_look {
            return;
        }
        self.next_look = now.saturating_add(self.config.check_interval);
        let CoordinatorConfig { policy: given, .. } = self.given;
        let agreed = AgreedTimes::of(view.move_times(), &given.overlapped.overheads);
        let policy = &mut self.config.policy;
        policy.overlapped.overheads = given.overlapped.overheads.as_agreed(&agreed);
        policy.parameters.recompute_overhead_s = agreed.recompute_s.unwrap_or(given.parameters.recompute_overhead_s);
        policy.parameters.transfer_overhead_s = agreed.transfer_s.unwrap_or(given.parameters.transfer_overhead_s);
    }

    /// Whether it leads, and by which election.
    pub fn leads(&self) -> Option<Term> {
        self.is_leading.then_some(self.made.term)
    }

    /// Of the latest election that it knows of.
    pub(super) fn term(&self) -> Term {
        self.made.term
    }

    /// Requests that it follows.
    pub fn followed(&self) -> usize {
        self.ledger.len()
    }

    /// Whether what runs on the peer cannot wait for its turn.
    fn is_going(&self, now: Now, view: &View, peer: PeerId) -> bool {
        !may_stay(view, peer) || self.notice_of(now, peer).is_some()
    }

    /// Whether `report` is what it goes by of that request.
    #[cfg(test)]
    pub(super) fn follows(&self, report: &RequestReport) -> bool {
        self.ledger.followed(report.request).is_some_and(|followed| followed.report == *report)
    }

    /// The departure that `peer` has announced, and how long it has still.
    pub(super) fn notice_of(&self, now: Now, peer: PeerId) -> Option<(DepartureCause, Duration)> {
        let (cause, leaves_at) = self.notices.get(&peer)?;
        (now <= leaves_at.saturating_add(NOTICE_LINGERS)).then(|| (*cause, leaves_at.saturating_sub(now)))
    }

    /// A new leader begins with nothing: origins report anew. An election that is over changes nothing.
    fn handle_election(&mut self, now: Now, term: Term, is_leading: bool) {
        if term < self.made.term || (self.is_leading == is_leading && term == self.made.term) {
            return;
        }
        if term > self.made.term {
            self.made = Generation { term, number: 0 };
        }
        self.is_leading = is_leading;
        self.ledger = Ledger::default();
        self.next_round = now.saturating_add(self.config.check_interval);
    }

    fn handle_report(&mut self, now: Now, view: &View, origin: PeerId, report: RequestReport) {
        if !self.is_leading {
            return;
        }
        let (request, worker) = (report.request, report.worker());
        match self.ledger.take_in(now, origin, report) {
            Ok(true) if worker.is_none_or(|worker| self.is_going(now, view, worker)) => self.ledger.hurry_one(request),
            Ok(_) => {}
            Err(fault) => self.say(Output::PeerFault { peer: origin, fault }),
        }
    }

    /// What is refused takes up no room; and whoever has heard later plans gets later ones.
    fn handle_refused(&mut self, now: Now, origin: PeerId, refused: &PlanRefused) {
        if !self.is_leading || !self.ledger.refuse(now, origin, refused) {
            return;
        }
        self.reservations.forget(refused.request);
        if let Some(heard) = refused.heard.filter(|heard| heard.term == self.made.term) {
            let most = self.made.number.saturating_add(CATCH_UP_MAX);
            self.made.number = self.made.number.max(heard.number.min(most));
        }
    }

    fn handle_peer(&mut self, view: &View, peer: PeerId) {
        if !may_stay(view, peer) {
            self.ledger.hurry(peer);
        }
        // It has begun another session, or another life.
        if view.peer(peer).is_some() && may_stay(view, peer) {
            self.notices.remove(&peer);
        }
    }

    fn handle_notice(&mut self, now: Now, peer: PeerId, cause: DepartureCause, notice: Duration) {
        let is_over = |(_, leaves_at): &(DepartureCause, Now)| now > leaves_at.saturating_add(NOTICE_LINGERS);
        self.notices.retain(|_, notice| !is_over(notice));
        if self.notices.len() < NOTICES_MAX || self.notices.contains_key(&peer) {
            self.notices.insert(peer, (cause, now.saturating_add(notice)));
        }
        self.ledger.hurry(peer);
    }

    fn handle_tick(&mut self, now: Now, view: &View) {
        if !self.is_leading {
            return;
        }
        self.learn_overheads(now, view);
        if now >= self.next_round {
            self.next_round = now.saturating_add(self.config.check_interval);
            self.reservations.prune(now);
            self.ledger.expire(now);
            self.ledger.begin_round();
        }
        for _ in 0..SLICE {
            let Some(request) = self.ledger.next_due() else { break };
            self.plan(now, view, request);
        }
    }

    /// Proposes what is wanted of the request.
    fn plan(&mut self, now: Now, view: &View, request: RequestId) {
        if !self.ledger.may_plan(now, request, self.config.check_interval) {
            return;
        }
        // What is reserved for the request itself is no load that it would meet.
        let before = self.reservations.forget(request);
        let decided = self.look_at(now, view, request);
        let decided = decided.filter(|decided| !self.ledger.is_refused(now, request, &decided.step));
        let reservation = decided.as_ref().map_or(before, |decided| decided.reservation);
        if let Some(reservation) = reservation {
            self.reservations.add(reservation);
        }
        let Some(decided) = decided else { return };
        let generation = Generation { number: self.made.number.saturating_add(1), ..self.made };
        let planned = (generation, decided.step);
        let Some((origin, epoch)) = self.ledger.mark_planned(now, request, planned) else { return };
        self.made = generation;
        let plan = Plan { generation, request, epoch, step: decided.step, terms: decided.terms };
        self.say(Output::Propose { origin, plan });
    }

    fn say(&mut self, output: Output) {
        if self.outputs.len() >= OUTPUTS_MAX {
            self.outputs.pop_front();
        }
        self.outputs.push_back(output);
    }
}

/// Whether nothing is known that would keep the peer from running on.
fn may_stay(view: &View, peer: PeerId) -> bool {
    let digest = view.peer(peer).map(|known| known.digest.as_ref());
    match digest {
        Some(Some(digest)) => digest.state == PeerState::Serving,
        Some(None) => true,
        None => view.departure(peer).is_none(),
    }
}
