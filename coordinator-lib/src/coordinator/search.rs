//! The best peers of many, found by looking at few.
//!
//! Best first over the cells of an index ([`crate::view::Carriers`]): T at a cell's corner is a lower bound of E = T + L
//! there, since no loss is negative. Cells are opened by rising bound until the next one cannot hold anybody better than
//! the worst that is kept; within a cell the same test comes before every dearer step. So the answer is that of the full
//! scan, which a test holds it to, unless `looks_max` ends it early.
//!
//! The fallback of a peer is the fastest at prefill of the other fit ones: the first of a list that is sorted by that.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use idlewild_protocol::PeerId;

use super::candidate::{Candidate, least_time_s_by, least_time_s_in};
use super::fitness::{Question, Room};
use super::reservations::Reservations;
use crate::cost::{CostParameters, Situation, Terms, terms};
use crate::view::Cell;

/// What to look for, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) question: Question<'a>,
    pub(super) reservations: &'a Reservations,
    pub(super) parameters: &'a CostParameters,
    /// How many of the best are wanted.
    pub(super) keep: usize,
    /// Peers that may be looked up before the search is content with what it has; [`usize::MAX`] for the exact answer.
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
    /// The two fastest at prefill, the faster first.
    pub(super) rebuilders: Vec<Candidate<'a>>,
    /// Peers that were looked up.
    pub(super) looks: usize,
}

impl<'a> Search<'a> {
    /// The best that have the least room that anybody has.
    pub(super) fn run(&self) -> Shortlist<'a> {
        let mut lists = Room::IN_ORDER.into_iter().map(|room| self.run_in(room));
        lists.find(|list| !list.best.is_empty()).unwrap_or_default()
    }

    /// The best that have `room`.
    pub(super) fn run_in(&self, room: Room) -> Shortlist<'a> {
        let Some(carriers) = self.question.view.carriers(self.question.model) else { return Shortlist::default() };
        let mut list = self.rebuilders_in(room);
        let (bounds, cells): (Vec<f64>, Vec<Cell<'a>>) =
            carriers.cells().map(|(corner, cell)| (least_time_s_in(&corner, &self.question), cell)).unzip();
        // Bits of numbers that are not negative are in the order of the numbers.
        let by_bound = bounds.iter().zip(0_usize..).map(|(least_s, at)| Reverse((least_s.to_bits(), at)));
        let mut queue: BinaryHeap<_> = by_bound.collect();
        while let Some(Reverse((least_bits, at))) = queue.pop()
            && list.may_improve(f64::from_bits(least_bits), self.keep)
            && self.look_into(cells[at], room, &mut list)
        {}
        list
    }

    /// Weighs whoever in the cell may be among the best. False once enough was looked at.
    fn look_into(&self, cell: Cell<'a>, room: Room, list: &mut Shortlist<'a>) -> bool {
        for (peer, model) in cell.peers() {
            let may_do = room.is_in(model, 0, &self.question.work)
                && list.may_improve(least_time_s_by(model, &self.question), self.keep);
            if !may_do {
                continue;
            }
            if list.looks >= self.looks_max {
                return false;
            }
            let Some(candidate) = self.look_up(peer, room, &mut list.looks) else { continue };
            if list.may_improve(candidate.time_s(&self.question), self.keep) {
                let weighed = self.weigh(candidate, &list.rebuilders);
                list.insert(weighed, self.question.origin, self.keep);
            }
        }
        true
    }

    fn look_up(&self, peer: PeerId, room: Room, looks: &mut usize) -> Option<Candidate<'a>> {
        *looks += 1;
        let view = self.question.view.peer(peer)?;
        Candidate::new(&self.question, self.reservations, room, peer, view).ok()
    }

    /// The two fastest at prefill of those that could take the request; of equals the origin first, then the smaller id.
    pub(super) fn rebuilders_in(&self, room: Room) -> Shortlist<'a> {
        let mut list = Shortlist::default();
        let Some(carriers) = self.question.view.carriers(self.question.model) else { return list };
        let origin = self.question.origin;
        // The origin may be the first of equals wherever it stands among them.
        list.rebuilders.extend(self.look_up(origin, room, &mut list.looks));
        let mut others = 0;
        for peer in carriers.by_prefill().filter(|peer| *peer != origin) {
            if others == 2 || list.looks >= self.looks_max {
                break;
            }
            let found = self.look_up(peer, room, &mut list.looks);
            others += usize::from(found.is_some());
            list.rebuilders.extend(found);
        }
        list.rebuilders.sort_by_key(|c| (Reverse(c.rates().prefill_tps.to_bits()), c.peer != origin, c.peer));
        list.rebuilders.truncate(2);
        list
    }

    /// What the request would cost on `candidate`.
    pub(super) fn weigh(&self, candidate: Candidate<'a>, rebuilders: &[Candidate<'a>]) -> Weighed<'a> {
        let terms = self.weigh_waiting(candidate, candidate.wait_s(), rebuilders);
        Weighed { candidate, terms, fallback: rebuilder(candidate.peer, rebuilders).map(|other| other.peer) }
    }

    /// The same for a request that waits `wait_s` there.
    pub(super) fn weigh_waiting(&self, candidate: Candidate<'a>, wait_s: f64, rebuilders: &[Candidate<'a>]) -> Terms {
        let peer = candidate.in_fleet();
        let rebuild_tps = rebuilder(candidate.peer, rebuilders).map(|other| other.rates().prefill_tps);
        let situation = Situation { rates: &peer.rates, hazard: peer.hazard, wait_s, rebuild_tps };
        terms(&situation, &self.question.work, self.parameters)
    }
}

/// Who would take over from `peer`.
fn rebuilder<'b, 'a>(peer: PeerId, rebuilders: &'b [Candidate<'a>]) -> Option<&'b Candidate<'a>> {
    rebuilders.iter().find(|other| other.peer != peer)
}

impl<'a> Shortlist<'a> {
    /// Whether a peer that costs at least `least_s` may be among the best. A loss that rounding made negative is no reason
    /// to miss it.
    fn may_improve(&self, least_s: f64, keep: usize) -> bool {
        const ROUNDING: f64 = 1.0 - 1e-9;
        self.best.len() < keep || self.best.last().is_some_and(|worst| least_s * ROUNDING <= worst.terms.expected_s())
    }

    fn insert(&mut self, weighed: Weighed<'a>, origin: PeerId, keep: usize) {
        let at = self.best.partition_point(|known| known.compare(&weighed, origin) == Ordering::Less);
        self.best.insert(at, weighed);
        self.best.truncate(keep);
    }
}

impl Weighed<'_> {
    /// By E; of equals the origin first, then the smaller id.
    pub(super) fn compare(&self, other: &Self, origin: PeerId) -> Ordering {
        let tie = |weighed: &Self| (weighed.candidate.peer != origin, weighed.candidate.peer);
        self.terms.expected_s().total_cmp(&other.terms.expected_s()).then_with(|| tie(self).cmp(&tie(other)))
    }
}
