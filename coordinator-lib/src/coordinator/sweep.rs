//! The few best of many peers by any measure of which a lower bound is known, found by looking at few.
//!
//! Best first over the groups of an index ([`crate::view::Carriers`]) and their cells: the bound for the best that a cell
//! can offer holds for everybody in it. They are opened by rising bound until the next one cannot hold anybody better than
//! the worst that is kept; within a cell the same test comes before every dearer step. So the answer is that of a full
//! scan, which a test holds it to, unless `looks_max` ends it early.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use idlewild_protocol::PeerId;

use super::candidate::Candidate;
use super::fitness::{Question, Room};
use super::reservations::Reservations;
use crate::view::{Cell, Group, Offer};

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

    /// A closer bound for a peer that was looked up: cheaper than to weigh it.
    fn least_there_s(&self, candidate: &Candidate<'a>) -> f64;

    /// The measure of a peer, and what else was found out.
    fn weigh(&self, candidate: Candidate<'a>) -> (f64, Self::Found);
}

/// Part of an index.
#[derive(Debug, Clone, Copy)]
enum Node<'a> {
    Group(Group<'a>),
    Cell(Cell<'a>),
}

/// Parts of an index, to be opened by rising bound.
#[derive(Debug, Default)]
struct Queue<'a> {
    nodes: Vec<Node<'a>>,
    /// Bits of the bounds, which are in the order of the bounds since none is negative; and where the node is.
    by_bound: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'a> Queue<'a> {
    fn push(&mut self, least_s: f64, node: Node<'a>) {
        self.by_bound.push(Reverse((least_s.max(0.0).to_bits(), self.nodes.len())));
        self.nodes.push(node);
    }

    fn pop(&mut self) -> Option<(f64, Node<'a>)> {
        let Reverse((least_bits, at)) = self.by_bound.pop()?;
        Some((f64::from_bits(least_bits), self.nodes[at]))
    }
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
        let mut queue = Queue::default();
        carriers.groups().for_each(|(offer, group)| queue.push(measure.least_s(&offer), Node::Group(group)));
        let mut looks = 0;
        while let Some((least_s, node)) = queue.pop()
            && best.may_improve(least_s)
        {
            match node {
                Node::Group(group) => {
                    let cells = group.cells().map(|(offer, cell)| (measure.least_s(&offer), cell));
                    cells.for_each(|(least_s, cell)| queue.push(least_s, Node::Cell(cell)));
                }
                Node::Cell(cell) if self.look_into(cell, measure, &mut best, &mut looks) => {}
                Node::Cell(_) => break,
            }
        }
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
            if best.may_improve(measure.least_there_s(&candidate)) {
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
        let at = self
            .kept
            .partition_point(|(known_s, known, _)| known_s.total_cmp(&measured_s).then(known.cmp(&tie)).is_lt());
        self.kept.insert(at, (measured_s, tie, found));
        self.kept.truncate(self.keep);
    }
}
