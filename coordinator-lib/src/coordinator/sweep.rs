//! The few best of many peers by any measure of which a lower bound is known, found by looking at few.
//!
//! Best first over the groups of an index ([`crate::view::Carriers`]) and their cells: the bound for the best that a cell
//! can offer holds for everybody in it. They are opened by rising bound until the next one cannot hold anybody better than
//! the worst that is kept; within a cell the same test comes before every dearer step. There the order of equals counts,
//! so that of many peers that measure the same only the first are looked up. So the answer is that of a full scan, which
//! a test holds it to, unless `looks_max` ends it early.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use idlewild_protocol::{ModelLoad, PeerId};

use super::candidate::Candidate;
use super::fitness::{Question, Room};
use super::reservations::Reservations;
use crate::view::{Cell, Group, Offer};

/// Where to look, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep<'a> {
    pub(super) question: Question<'a>,
    pub(super) reservations: &'a Reservations,
    pub(super) room: Room,
    /// Peers that may be looked up before the sweep is content with what it has; [`usize::MAX`] for the exact answer.
    pub(super) looks_max: usize,
}

/// A measure of peers, in seconds: less is better. Its bounds must hold to the last bit, for equals too.
pub(super) trait Measure<'a> {
    /// What it finds out about a peer.
    type Found;

    /// No peer that offers no more than `offer` measures less.
    fn least_s(&self, offer: &Offer) -> f64;

    /// A closer bound for a peer whose digest says this of the model, whatever is reserved there.
    fn least_of(&self, model: &ModelLoad) -> f64;

    /// A closer one for a peer that was looked up: cheaper than to weigh it.
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

/// The order of equals: the origin first, then the smaller id.
type Tie = (bool, PeerId);

/// Peers in the order of their measure, and then of ties.
#[derive(Debug)]
struct Best<T> {
    kept: Vec<(f64, Tie, T)>,
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
            let tie = (peer != self.question.origin, peer);
            let has_room = self.room.is_in(model, 0, &self.question.work);
            if !(has_room && best.may_take(measure.least_of(model), tie)) {
                continue;
            }
            if *looks >= self.looks_max {
                return false;
            }
            *looks += 1;
            let Self { question, reservations, room, .. } = self;
            let Some(candidate) = Candidate::indexed(question, reservations, *room, peer, model) else { continue };
            if best.may_take(measure.least_there_s(&candidate), tie) {
                let (measured_s, found) = measure.weigh(candidate);
                best.insert(measured_s, tie, found);
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
    /// Whether any peer that measures at least `least_s` may be among the best.
    fn may_improve(&self, least_s: f64) -> bool {
        self.kept.len() < self.keep || self.kept.last().is_some_and(|(worst_s, ..)| least_s <= *worst_s)
    }

    /// Whether this one may.
    fn may_take(&self, least_s: f64, tie: Tie) -> bool {
        let is_before =
            |(worst_s, worst, _): &(f64, Tie, T)| least_s < *worst_s || (least_s <= *worst_s && tie < *worst);
        self.kept.len() < self.keep || self.kept.last().is_some_and(is_before)
    }

    fn insert(&mut self, measured_s: f64, tie: Tie, found: T) {
        let at = self
            .kept
            .partition_point(|(known_s, known, _)| known_s.total_cmp(&measured_s).then(known.cmp(&tie)).is_lt());
        self.kept.insert(at, (measured_s, tie, found));
        self.kept.truncate(self.keep);
    }
}
