//! Asks the rules of this crate directly: the fast way, and the one in which policies are compared.

use idlewild_protocol::DepartureCause;

use super::hazards::{Endless, Hazards};
use super::lengths::{Knowledge, Lengths};
use super::moves::is_near;
use super::offers::{Offer, offer};
use super::{Driver, Part, PolicyKind, PolicyParts, Step};
use crate::cost::{Residual, Work};
use crate::hazard::Hazard;
use crate::policy::overlapped::{self, Host, Placing};
use crate::policy::{Fleet, FleetPeer, Policy};
use crate::sim::scenario::{Arrival, Scenario};
use crate::sim::world::{Phase, Swarm};

/// Swarms up to so many peers are weighed whole. Of larger ones the free peers that decode fastest are, as many; all where
/// fewer are free. The product's coordinator looks at some dozens, too.
const WEIGHED_MAX: usize = 64;

/// One policy, and what it has learnt.
#[derive(Debug)]
pub(crate) struct PolicyDriver<'a> {
    pub(super) kind: PolicyKind,
    pub(super) parts: PolicyParts,
    pub(super) policy: Box<dyn Asked>,
    pub(super) scenario: &'a Scenario,
    pub(super) hazards: Hazards,
    pub(super) lengths: Lengths,
    /// Tokens that the largest machine holds.
    most_room_tokens: u32,
    /// Whether it places as the published simulator does.
    as_published: bool,
    draws: u64,
}

/// A policy that can be printed.
pub(super) trait Asked: Policy<usize> + core::fmt::Debug {}

impl<P: Policy<usize> + core::fmt::Debug> Asked for P {}

/// A request as its placement is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) work: Work,
    pub(super) residual: Residual,
}

impl<'a> PolicyDriver<'a> {
    pub(crate) fn new(kind: PolicyKind, parts: PolicyParts, scenario: &'a Scenario, seed: u64) -> Self {
        let learns = kind == PolicyKind::HazardOverlapped && parts.has(Part::Residual);
        let knowledge = match (kind.is_oracle(), learns) {
            (true, _) => Knowledge::Exact,
            (false, true) => Knowledge::Learnt,
            (false, false) => Knowledge::Estimate,
        };
        Self {
            policy: kind.policy(&parts, seed),
            kind,
            parts,
            scenario,
            hazards: Hazards::new(scenario.peers.len(), scenario.world.digest_interval_s),
            lengths: Lengths::new(knowledge),
            most_room_tokens: scenario.peers.iter().map(|peer| peer.kv_tokens).max().unwrap_or(0),
            as_published: false,
            draws: 0,
        }
    }

    /// The same, placing as the published simulator does.
    pub(crate) fn with_published_loads(self) -> Self {
        Self { as_published: true, ..self }
    }

    pub(super) fn is_corrected(&self) -> bool {
        self.kind == PolicyKind::HazardOverlapped
    }

    /// The request as it would begin anywhere, with its real context.
    pub(super) fn wanted(&self, swarm: &Swarm, request: usize) -> Wanted {
        let live = &swarm.requests[request];
        let (prompt, done) = (live.arrival.prompt_tokens, live.done_tokens_at(swarm.now_s));
        let residual = self.lengths.residual(request, live, swarm.now_s);
        // One that is expected to outgrow every machine is taken all the same: its answer may end with the context.
        let room = self.most_room_tokens.saturating_sub(live.context_tokens());
        let expected = done.saturating_add((residual.mean_tokens().round() as u32).min(room));
        Wanted { work: Work::orphaned(prompt, expected, done), residual }
    }

    /// Peers that take work, with what they offer.
    pub(super) fn offers(&self, swarm: &Swarm, request: usize) -> Vec<(usize, Offer)> {
        let offer = |peer: usize| (peer, offer(swarm, &self.lengths, peer, request));
        let takes_work = |peer: &usize| swarm.peers[*peer].takes_work();
        if swarm.peers.len() > WEIGHED_MAX {
            let mut free: Vec<usize> = swarm.free_peers().filter(takes_work).take(WEIGHED_MAX).collect();
            if free.len() == WEIGHED_MAX {
                free.sort_unstable();
                return free.into_iter().map(offer).collect();
            }
        }
        (0..swarm.peers.len()).filter(takes_work).map(offer).collect()
    }

    /// What is believed of how long a peer stays, as of the last [`Hazards::refresh`].
    pub(super) fn hazard(&self, now_s: f64, peer: usize) -> Hazard<'_> {
        if self.kind.reads_hazards() { self.hazards.of(now_s, peer) } else { Hazard { curve: &Endless, age_s: 0.0 } }
    }

    pub(super) fn refresh(&mut self, now_s: f64, peers: impl Iterator<Item = usize>) {
        if self.kind.reads_hazards() {
            for peer in peers {
                self.hazards.refresh(now_s, peer);
            }
        }
    }

    /// Seconds until the peer leaves: only oracles are told.
    pub(super) fn known_remaining_s(&self, swarm: &Swarm, peer: usize) -> Option<f64> {
        let stay = self.kind.is_oracle().then(|| self.scenario.stays[peer].get(swarm.peers[peer].stay))??;
        Some(stay.end_s - swarm.now_s)
    }

    pub(super) fn host(&self, swarm: &Swarm, peer: usize, offer: &Offer) -> Host<'_, usize> {
        let batch = if self.parts.has(Part::Slowdown) { offer.batch } else { crate::cost::Batch::EMPTY };
        Host {
            wait_s: offer.wait_s,
            utilisation: swarm.peers[peer].utilisation(),
            queued: swarm.peers[peer].queue.len() as u32,
            batch,
            known_remaining_s: self.known_remaining_s(swarm, peer),
            ..Host::new(peer, offer.rates, self.hazard(swarm.now_s, peer))
        }
    }

    /// By the corrected rule: with what others pay, and with what a standby holds.
    pub(super) fn place_corrected(
        &self,
        swarm: &Swarm,
        request: usize,
        wanted: &Wanted,
        offers: &[(usize, Offer)],
    ) -> Option<usize> {
        let live = &swarm.requests[request];
        let waits_at = match live.phase {
            Phase::Queued { worker } => Some(worker),
            Phase::Pending
            | Phase::Unnoticed
            | Phase::Starting { .. }
            | Phase::Filling { .. }
            | Phase::Decoding { .. }
            | Phase::Finished => None,
        };
        let held = live
            .standby
            .map(|standby| (standby.peer, live.context_tokens().saturating_sub(standby.lag_tokens.ceil() as u32)));
        let placing = Placing { work: wanted.work, residual: wanted.residual, held, queued_at: waits_at };
        let has_hazard = self.parts.has(Part::PlacementHazard);
        let hosts: Vec<Host<'_, usize>> = offers
            .iter()
            .map(|(peer, offer)| {
                let host = self.host(swarm, *peer, offer);
                let stays = Hazard { curve: &Endless, age_s: 0.0 };
                if has_hazard { host } else { Host { hazard: stays, ..host } }
            })
            .collect();
        overlapped::place(&placing, &hosts, &self.parts.overlapped).chosen
    }

    fn place_in_fleet(&self, swarm: &Swarm, wanted: &Wanted, offers: &[(usize, Offer)]) -> Option<usize> {
        let peer = |(id, offer): &(usize, Offer)| FleetPeer {
            id: *id,
            rates: offer.rates,
            load_s: offer.wait_s,
            hazard: self.hazard(swarm.now_s, *id),
            known_remaining_s: self.known_remaining_s(swarm, *id),
        };
        let fleet = Fleet { draw: self.draws, ..Fleet::new(offers.iter().map(peer).collect()) };
        self.policy.place(&fleet, &wanted.work).chosen
    }
}

/// T.
pub(super) fn time_s(offer: &Offer, wanted: &Wanted) -> f64 {
    let rates = &offer.rates;
    offer.wait_s
        + f64::from(wanted.work.prefill_tokens) / rates.prefill_tps
        + wanted.residual.mean_tokens() / rates.decode_tps
}

impl Driver for PolicyDriver<'_> {
    fn begin(&mut self, now_s: f64, peer: usize) {
        if self.kind.reads_hazards() {
            self.hazards.begin(now_s, peer);
        }
    }

    fn end(&mut self, now_s: f64, peer: usize, cause: Option<DepartureCause>) {
        if self.kind.reads_hazards() {
            self.hazards.end(now_s, peer, cause);
        }
    }

    fn expect(&mut self, arrival: &Arrival) -> u32 {
        self.lengths.expect(arrival)
    }

    fn finished(&mut self, arrival: &Arrival) {
        self.lengths.learn(arrival);
    }

    fn place(&mut self, swarm: &Swarm, request: usize) -> Option<usize> {
        self.draws += 1;
        if self.as_published {
            return self.place_as_published(swarm, request);
        }
        let wanted = self.wanted(swarm, request);
        let offers = self.offers(swarm, request);
        self.refresh(swarm.now_s, offers.iter().map(|(peer, _)| *peer));
        if self.is_corrected() {
            self.place_corrected(swarm, request, &wanted, &offers)
        } else {
            self.place_in_fleet(swarm, &wanted, &offers)
        }
    }

    fn looks(&self) -> bool {
        matches!(self.kind, PolicyKind::HazardBlocking | PolicyKind::HazardOverlapped | PolicyKind::OracleFull)
    }

    fn heeds_notices(&self) -> bool {
        matches!(self.kind, PolicyKind::HazardOverlapped | PolicyKind::OracleFull) && self.parts.has(Part::Notice)
    }

    fn is_urgent(&self, swarm: &Swarm, peer: usize) -> bool {
        let is_known = self.kind == PolicyKind::OracleFull && is_near(self.known_remaining_s(swarm, peer));
        is_known || (self.heeds_notices() && swarm.peers[peer].leaves.is_some())
    }

    fn look(&mut self, swarm: &Swarm, request: usize) -> Step {
        self.look_at(swarm, request)
    }
}
