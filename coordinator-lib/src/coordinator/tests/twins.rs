//! Peers that are alike: the hardest case for a search.

use core::cell::Cell;

use idlewild_protocol::{Digest, ModelLoad, PeerId};

use super::fleet::{digest, model, ms, peer, request, view_of};
use crate::coordinator::candidate::Candidate;
use crate::coordinator::fitness::{Question, Room};
use crate::coordinator::reservations::Reservations;
use crate::coordinator::sweep::{Measure, Sweep};
use crate::view::Offer;

/// Seconds to prefill a token, and how many peers were looked up to find that out.
#[derive(Default)]
struct Prefill {
    looked_up: Cell<u32>,
}

impl<'a> Measure<'a> for Prefill {
    type Found = PeerId;

    fn least_s(&self, offer: &Offer) -> f64 {
        1.0 / offer.prefill_tps
    }

    fn least_of(&self, model: &ModelLoad) -> f64 {
        self.least_s(&Offer::of(model))
    }

    fn least_there_s(&self, candidate: &Candidate<'a>) -> f64 {
        self.looked_up.set(self.looked_up.get() + 1);
        self.least_s(&candidate.offer())
    }

    fn weigh(&self, candidate: Candidate<'a>) -> (f64, PeerId) {
        (self.least_s(&candidate.offer()), candidate.peer)
    }
}

#[test]
fn of_many_peers_that_are_alike_only_the_first_are_looked_up() {
    let digests: Vec<Digest> = (2..=200).map(|n| digest(n, model())).collect();
    let (view, reservations, asked) = (view_of(&digests), Reservations::default(), request(1));
    let check = |origin: u8, expected: [u8; 3], looked_up: u32| {
        let question = Question::of(ms(0), &view, peer(origin), &asked);
        let sweep = Sweep { question, reservations: &reservations, room: Room::Free, looks_max: usize::MAX };
        let measure = Prefill::default();
        assert_eq!(sweep.best(3, &measure), expected.map(peer));
        assert_eq!(measure.looked_up.get(), looked_up);
    };
    check(1, [2, 3, 4], 3);
    check(150, [150, 2, 3], 4);
}
