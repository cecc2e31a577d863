//! Placement as the published step simulator does it, faults and all: to check the world against its figures, and for nothing
//! else.
//!
//! A request counts on its peer for what its client said, less what is done: below nothing once it is past that. An orphan is
//! placed as if nothing of it existed.

use super::PolicyDriver;
use super::hazards::Endless;
use super::offers::{prefill_left_s, rates};
use crate::cost::Work;
use crate::hazard::Hazard;
use crate::policy::{Fleet, FleetPeer};
use crate::sim::world::Swarm;

impl PolicyDriver<'_> {
    pub(super) fn place_as_published(&self, swarm: &Swarm, request: usize) -> Option<usize> {
        let takes_work = |peer: &usize| swarm.peers[*peer].takes_work();
        let loads: Vec<(usize, f64)> =
            (0..swarm.peers.len()).filter(takes_work).map(|peer| (peer, load_s(swarm, peer))).collect();
        // A common shift that leaves no load below 0 changes no comparison, and the policies take a load below 0 for none.
        let shift_s = -loads.iter().map(|(_, load_s)| *load_s).fold(0.0, f64::min);
        let fleet_peer = |(id, load_s): &(usize, f64)| FleetPeer {
            id: *id,
            rates: rates(&swarm.peers[*id], 1),
            load_s: load_s + shift_s,
            hazard: Hazard { curve: &Endless, age_s: 0.0 },
            known_remaining_s: self.known_remaining_s(swarm, *id).map(|remaining_s| remaining_s + shift_s),
        };
        let live = &swarm.requests[request];
        let work = Work::fresh(live.arrival.prompt_tokens, live.expected_tokens);
        self.policy.place(&Fleet::new(loads.iter().map(fleet_peer).collect()), &work).chosen
    }
}

/// Seconds of work on a peer, as the reference counts them.
fn load_s(swarm: &Swarm, peer: usize) -> f64 {
    let known = &swarm.peers[peer];
    let of = |request: &usize| {
        let live = &swarm.requests[*request];
        // As of now: what was counted last may be some events ago.
        let done = live.done + live.coming_tps() * (swarm.now_s - live.at_s);
        let decoding_s = (f64::from(live.expected_tokens) - done.floor()) / known.spec.decode_tps;
        decoding_s + prefill_left_s(swarm, known, *request)
    };
    known.active.iter().chain(&known.queue).map(of).sum()
}
