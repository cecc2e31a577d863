//! One machine: who runs on it, who waits, for whom it prepares, and how its time is shared.

use std::collections::VecDeque;

use idlewild_protocol::DepartureCause;

use crate::cost::Batching;
use crate::sim::fleet::PeerSpec;
use crate::sim::scenario::World;

/// What a peer has said of its departure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Leaves {
    /// When it is gone with all that it holds.
    pub(crate) at_s: f64,
    /// Why.
    pub(crate) cause: DepartureCause,
    /// Whether it works until then.
    pub(crate) decodes: bool,
}

/// Where a peer is in its life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Presence {
    /// Not there.
    Away,
    /// It works.
    Here,
    /// Its owner is back: it holds contexts, and does nothing.
    Stopped,
}

/// One machine.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) spec: PeerSpec,
    pub(crate) batching: Batching,
    pub(crate) presence: Presence,
    pub(crate) leaves: Option<Leaves>,
    /// Which of its stays is or was the last.
    pub(crate) stay: usize,
    /// Requests that have a slot, in the order in which they got it.
    pub(crate) active: Vec<usize>,
    /// Requests that wait for one.
    pub(crate) queue: VecDeque<usize>,
    /// Requests that it prepares for.
    pub(crate) standbys: Vec<usize>,
    /// The part of its time that is taken now, and up to when that has been counted.
    pub(crate) busy_share: f64,
    pub(crate) counted_s: f64,
    /// Seconds of work so far, and seconds in which it was there to work.
    pub(crate) busy_s: f64,
    pub(crate) here_s: f64,
}

/// What those who run on a peer want of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Demand {
    /// Requests that decode.
    pub(crate) decoding: u32,
    /// Whether one of those with a slot has something to prefill.
    pub(crate) prefills: bool,
    /// Preparations that want all that they can get.
    pub(crate) catching_up: u32,
    /// The part of its time that those who keep up take together.
    pub(crate) following: f64,
}

/// How a peer's time is shared: parts of it, together at most 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Shares {
    /// For all that decode together.
    pub(crate) decode: f64,
    /// For the prefill of one request.
    pub(crate) prefill: f64,
    /// For each preparation that catches up.
    pub(crate) catching_up: f64,
    /// What those who keep up get of what they want: 1, or less.
    pub(crate) following_part: f64,
}

impl Demand {
    /// Requests come first: preparations get their share beside them, or what nobody else wants. Decoding and prefill take
    /// turns.
    pub(crate) fn share(&self, world: &World) -> Shares {
        let is_busy = self.decoding > 0 || self.prefills;
        let most = if is_busy { world.standby_share } else { 1.0 };
        let following = self.following.min(most);
        let rest = if self.catching_up > 0 { most - following } else { 0.0 };
        let own = 1.0 - following - rest;
        let prefill = match (self.prefills, self.decoding) {
            (false, _) => 0.0,
            (true, 0) => own,
            (true, _) => own * world.prefill_share,
        };
        Shares {
            decode: if self.decoding > 0 { own - prefill } else { 0.0 },
            prefill,
            catching_up: if self.catching_up > 0 { rest / f64::from(self.catching_up) } else { 0.0 },
            following_part: if self.following > 0.0 { following / self.following } else { 1.0 },
        }
    }
}

impl Peer {
    pub(crate) fn new(spec: PeerSpec) -> Self {
        Self {
            batching: spec.batching(),
            spec,
            presence: Presence::Away,
            leaves: None,
            stay: 0,
            active: Vec::new(),
            queue: VecDeque::new(),
            standbys: Vec::new(),
            busy_share: 0.0,
            counted_s: 0.0,
            busy_s: 0.0,
            here_s: 0.0,
        }
    }

    /// Whether it works.
    pub(crate) fn is_here(&self) -> bool {
        self.presence == Presence::Here
    }

    /// Whether it takes work: it is there, and has not said that it goes.
    pub(crate) fn takes_work(&self) -> bool {
        self.is_here() && self.leaves.is_none()
    }

    /// Whether a slot is free.
    pub(crate) fn has_slot(&self) -> bool {
        self.active.len() < usize::from(self.spec.slots)
    }

    /// u: the part of its slots that is taken.
    pub(crate) fn utilisation(&self) -> f64 {
        (self.active.len() as f64 / f64::from(self.spec.slots)).min(1.0)
    }

    /// Counts the time since it was last counted; those before `from_s` do not count.
    pub(crate) fn count(&mut self, now_s: f64, from_s: f64) {
        let time_s = (now_s - self.counted_s.max(from_s)).max(0.0);
        if self.is_here() {
            self.here_s += time_s;
            self.busy_s += time_s * self.busy_share;
        }
        self.counted_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_more_than_there_is_and_nobody_idles_while_somebody_waits() {
        let world = World::default();
        for decoding in 0..3 {
            for prefills in [false, true] {
                for catching_up in 0..3 {
                    for following in [0.0, 0.1, 0.7] {
                        let demand = Demand { decoding, prefills, catching_up, following };
                        let shares = demand.share(&world);
                        let preparing = shares.catching_up * f64::from(catching_up) + following * shares.following_part;
                        let total = shares.decode + shares.prefill + preparing;
                        let is_wanted = decoding > 0 || prefills || catching_up > 0;
                        let expected = if is_wanted { 1.0 } else { following };
                        assert!((total - expected).abs() < 1e-12, "{demand:?}: {shares:?}");
                        let is_busy = decoding > 0 || prefills;
                        assert!(!is_busy || preparing <= world.standby_share + 1e-12, "{demand:?}: {shares:?}");
                    }
                }
            }
        }
    }
}
