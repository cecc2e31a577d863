//! What takes many peers away at once: a circuit, a router, an update.

use crate::sim::random::{Draws, Purpose};
use crate::sim::scenario::{Departure, Stay};

/// One such event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// When, in seconds of the run.
    pub at_s: f64,
    /// How long nobody of those is there.
    pub lasts_s: f64,
    /// The part of all peers that it takes.
    pub share: f64,
}

/// Takes the peers that the `number`th fault of `seed` draws away for as long as it lasts. Who would have been there after it
/// is back then, without a word of the past: it begins another stay.
pub fn apply_fault(fault: &Fault, number: u32, seed: u64, stays: &mut [Vec<Stay>]) {
    let mut draws = Draws::new(seed, Purpose::Faults, number);
    for of_peer in stays {
        if draws.happens(fault.share) {
            *of_peer = of_peer.iter().flat_map(|stay| without(stay, fault)).collect();
        }
    }
}

/// What is left of a stay before and after the fault.
fn without(stay: &Stay, fault: &Fault) -> impl Iterator<Item = Stay> {
    let back_s = fault.at_s + fault.lasts_s;
    let is_hit = stay.end_s > fault.at_s && stay.start_s < back_s;
    let before = Stay { end_s: fault.at_s, is_end_seen: true, departure: Departure::UNKNOWN, ..*stay };
    let after = Stay { start_s: stay.start_s.max(back_s), ..*stay };
    let parts = if is_hit {
        [(before.start_s < fault.at_s).then_some(before), (after.end_s > back_s).then_some(after)]
    } else {
        [Some(*stay), None]
    };
    parts.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_cuts_the_stays_that_it_hits_and_no_others() {
        let stay = |start_s, end_s| Stay { start_s, end_s, is_end_seen: true, departure: Departure::UNKNOWN };
        let fault = Fault { at_s: 100.0, lasts_s: 50.0, share: 1.0 };
        let mut stays = vec![vec![stay(0.0, 40.0), stay(90.0, 120.0), stay(125.0, 200.0)], vec![stay(0.0, 300.0)]];
        apply_fault(&fault, 0, 1, &mut stays);
        assert_eq!(stays[0], [stay(0.0, 40.0), stay(90.0, 100.0), stay(150.0, 200.0)]);
        assert_eq!(stays[1], [stay(0.0, 100.0), stay(150.0, 300.0)]);
        let mut spared = stays.clone();
        apply_fault(&Fault { share: 0.0, ..fault }, 0, 1, &mut spared);
        assert_eq!(spared, stays);
    }
}
