//! The few best of many peers by any measure of which a lower bound is known, found by looking at few.
//!
//! Best first over the cells of an index ([`crate::view::Carriers`]): the bound for the best that a cell can offer holds for
//! everybody in it. Cells are opened by rising bound until the next one cannot hold anybody better than the worst that is
//! kept; within a cell the same test comes before every dearer step. So the answer is that of a full scan, which a test
//! holds it to, unless `looks_max` ends it early.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use idlewild_protocol::PeerId;

use super::candidate::Candidate;
use super::fitness::{Question, Room};
use super::reservations::Reservations;
use crate::view::{Cell, Offer};

/// Bounds are believed to this part, so that rounding never hides the better of two.
const ROUNDING: f64 = 1.0 - 1e-9;

/// Where to look, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep<'a> {
    pub(super) question: Question<'a>,
    pub(super) reservations: &'a Reservations,
    pub(super) room: Room,
    /// Peers that may be looked up before the sweep is content with what it has; [`usize::MAX`] for the exact answer.
    pub(super) looks_max: usize,
}

/// A measure of peers, in seconds: less is better.
pub(super) trait Measure<'a> {
    /// What it finds out about a peer.
    type Found;

    /// No peer that offers no more than `offer` measures less.
    fn least_s(&self, offer: &Offer) -> f64;

    /// The measure of a peer, and what else was found out.
    fn weigh(&self, candidate: Candidate<'a>) -> (f64, Self::Found);
}

/// Peers in the order of their measure; of equals the origin first, then the smaller id.
#[derive(Debug)]
struct Best<T> {
    kept: Vec<(f64, (bool, PeerId), T)>,
    keep: usize,
}

impl<'a> Sweep<'a> {
    /// The `keep` best, the best first.
    pub(super) fn best<M: Measure<'a>>(&self, keep: usize, measure: &M) -> Vec<M::Found> {
        let mut best = Best { kept: Vec::with_capacity(keep), keep };
        let Some(carriers) = self.question.view.carriers(self.question.model) else { return Vec::new() };
        let (bounds, cells): (Vec<f64>, Vec<Cell<'a>>) =
            carriers.cells().map(|(offer, cell)| (measure.least_s(&offer).max(0.0), cell)).unzip();
        // Bits of numbers that are not negative are in the order of the numbers.
        let by_bound = bounds.iter().zip(0_usize..).map(|(least_s, at)| Reverse((least_s.to_bits(), at)));
        let mut queue: BinaryHeap<_> = by_bound.collect();
        let mut looks = 0;
        while let Some(Reverse((least_bits, at))) = queue.pop()
            && best.may_improve(f64::from_bits(least_bits))
            && self.look_into(cells[at], measure, &mut best, &mut looks)
        {}
        best.kept.into_iter().map(|(_, _, found)| found).collect()
    }

    /// Weighs whoever in the cell may be among the best. False once enough was looked at.
    fn look_into<M: Measure<'a>>(
        &self,
        cell: Cell<'a>,
        measure: &M,
        best: &mut Best<M::Found>,
        looks: &mut usize,
    ) -> bool {
        for (peer, model) in cell.peers() {
            let has_room = self.room.is_in(model, 0, &self.question.work);
            if !(has_room && best.may_improve(measure.least_s(&Offer::of(model)))) {
                continue;
            }
            if *looks >= self.looks_max {
                return false;
            }
            *looks += 1;
            let Some(candidate) = self.look_up(peer) else { continue };
            if best.may_improve(measure.least_s(&candidate.offer())) {
                let (measured_s, found) = measure.weigh(candidate);
                best.insert(measured_s, (peer != self.question.origin, peer), found);
            }
        }
        true
    }

    /// The peer, if it can take what is asked.
    pub(super) fn look_up(&self, peer: PeerId) -> Option<Candidate<'a>> {
        let view = self.question.view.peer(peer)?;
        Candidate::new(&self.question, self.reservations, self.room, peer, view).ok()
    }
}

impl<T> Best<T> {
    /// Whether a peer that measures at least `least_s` may be among the best.
    fn may_improve(&self, least_s: f64) -> bool {
        self.kept.len() < self.keep || self.kept.last().is_some_and(|(worst_s, ..)| least_s * ROUNDING <= *worst_s)
    }

    fn insert(&mut self, measured_s: f64, tie: (bool, PeerId), found: T) {
        let at = self.kept.partition_point(|(known_s, known, _)| known_s.total_cmp(&measured_s).then(known.cmp(&tie)).is_lt());
        self.kept.insert(at, (measured_s, tie, found));
        self.kept.truncate(self.keep);
    }
}
