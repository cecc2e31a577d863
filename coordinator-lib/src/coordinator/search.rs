//! The best peers for a request, and who would take over from them, by the policy's rule.

use idlewild_protocol::{ModelLoad, PeerId};

use super::candidate::{Candidate, utilisation};
use super::fitness::{Question, Room};
use super::reservations::Reservations;
use super::rule::Rule;
use super::sweep::{Measure, Sweep};
use super::takers::Takers;
use crate::cost::Terms;
use crate::view::Offer;

/// What to look for, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) question: Question<'a>,
    pub(super) reservations: &'a Reservations,
    pub(super) rule: Rule<'a>,
    /// How many of the best are wanted.
    pub(super) keep: usize,
    /// As [`Sweep::looks_max`].
    pub(super) looks_max: usize,
}

/// A peer, and what the request would cost there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weighed<'a> {
    pub(super) candidate: Candidate<'a>,
    pub(super) terms: Terms,
    pub(super) fallback: Option<PeerId>,
}

/// The best, best first, and who would take over from them.
#[derive(Debug, Clone, Default)]
pub(super) struct Shortlist<'a> {
    pub(super) best: Vec<Weighed<'a>>,
    pub(super) takers: Takers<'a>,
}

impl<'a> Search<'a> {
    /// The best that have the least room that anybody has.
    pub(super) fn run(&self) -> Shortlist<'a> {
        let mut lists = Room::IN_ORDER.into_iter().map(|room| self.run_in(room));
        lists.find(|list| !list.best.is_empty()).unwrap_or_default()
    }

    /// The best that have `room`.
    pub(super) fn run_in(&self, room: Room) -> Shortlist<'a> {
        self.run_beside(room, self.takers_in(room))
    }

    /// The same where it is known who would take over.
    pub(super) fn run_beside(&self, room: Room, takers: Takers<'a>) -> Shortlist<'a> {
        let mut best = self.sweep(room).best(self.keep, &Expected { search: self, takers: &takers });
        self.add_holder(room, &takers, &mut best);
        Shortlist { best, takers }
    }

    /// Whoever holds a part of the context may be done sooner than what it offers to others says.
    fn add_holder(&self, room: Room, takers: &Takers<'a>, best: &mut Vec<Weighed<'a>>) {
        let Some((holder, _)) = self.question.held else { return };
        if best.iter().any(|weighed| weighed.candidate.peer == holder) {
            return;
        }
        best.extend(self.sweep(room).look_up(holder).map(|candidate| self.weigh(candidate, takers)));
        best.sort_by(|a, b| a.terms.expected_s().total_cmp(&b.terms.expected_s()));
        best.truncate(self.keep);
    }

    /// Who would take over from anybody that has `room`.
    pub(super) fn takers_in(&self, room: Room) -> Takers<'a> {
        let best = self.sweep(room).best(Takers::MOST, &TakingOver { search: self });
        Takers::new(best, self.rule, self.question.work.context_tokens)
    }

    /// What the request would cost on `candidate`.
    pub(super) fn weigh(&self, candidate: Candidate<'a>, takers: &Takers<'a>) -> Weighed<'a> {
        let terms = self.rule.terms(&self.question, &candidate, candidate.offer().wait_s, takers);
        Weighed { candidate, terms, fallback: takers.of(candidate.peer).map(|taker| taker.peer) }
    }

    /// The same for a request that waits `wait_s` there.
    pub(super) fn weigh_waiting(&self, candidate: &Candidate<'a>, wait_s: f64, takers: &Takers<'a>) -> Terms {
        self.rule.terms(&self.question, candidate, wait_s, takers)
    }

    fn sweep(&self, room: Room) -> Sweep<'a> {
        let Self { question, reservations, looks_max, .. } = *self;
        Sweep { question, reservations, room, looks_max }
    }
}

/// Bounds of E are believed to this part: it is summed in another order.
const ROUNDING: f64 = 1.0 - 1e-9;

/// E.
struct Expected<'s, 'a> {
    search: &'s Search<'a>,
    takers: &'s Takers<'a>,
}

impl<'a> Measure<'a> for Expected<'_, 'a> {
    type Found = Weighed<'a>;

    fn least_s(&self, offer: &Offer) -> f64 {
        ROUNDING * self.search.rule.least_s(&self.search.question, offer)
    }

    fn least_of(&self, model: &ModelLoad) -> f64 {
        self.least_s(&Offer::of(model))
    }

    fn least_there_s(&self, candidate: &Candidate<'a>) -> f64 {
        ROUNDING * self.search.rule.least_there_s(&self.search.question, candidate, self.takers)
    }

    fn weigh(&self, candidate: Candidate<'a>) -> (f64, Weighed<'a>) {
        let weighed = self.search.weigh(candidate, self.takers);
        (weighed.terms.expected_s(), weighed)
    }
}

/// What it costs to begin again on a peer after another was lost.
struct TakingOver<'s, 'a> {
    search: &'s Search<'a>,
}

impl<'a> Measure<'a> for TakingOver<'_, 'a> {
    type Found = Candidate<'a>;

    fn least_s(&self, offer: &Offer) -> f64 {
        self.search.rule.taking_over_s(&self.search.question, offer, 0.0)
    }

    fn least_of(&self, model: &ModelLoad) -> f64 {
        self.search.rule.taking_over_s(&self.search.question, &Offer::of(model), utilisation(model, 0))
    }

    fn least_there_s(&self, candidate: &Candidate<'a>) -> f64 {
        self.weigh(*candidate).0
    }

    fn weigh(&self, candidate: Candidate<'a>) -> (f64, Candidate<'a>) {
        let (offer, utilisation) = (candidate.offer(), candidate.utilisation());
        (self.search.rule.taking_over_s(&self.search.question, &offer, utilisation), candidate)
    }
}
