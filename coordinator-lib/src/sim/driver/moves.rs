//! Looking at a request that somebody has.

use super::offers::{Offer, offer, rates};
use super::policy::{Wanted, time_s};
use super::{Driver, Part, PolicyDriver, PolicyKind, Step};
use crate::cost::{Path, Way, Work};
use crate::policy::overlapped::{Action, Candidate, Host, Leaving, RunningRequest, Standby};
use crate::policy::{Fleet, FleetPeer, MoveDecision, Running};
use crate::sim::world::{Phase, Swarm};

/// Destinations that are weighed for one request, beside its standby.
const DESTINATIONS_MAX: usize = 6;

/// Peers whose chance to stay is looked up to find them, those with the least T. The product's coordinator looks at as many.
const LOOKS_MAX: usize = 24;

/// Seconds ahead of a departure from which the full oracle acts: [`crate::policy::OracleFull`] says why.
const ORACLE_LEAD_S: f64 = 60.0;

/// Expected seconds of stall below which no preparation is worth a thought.
const NEGLIGIBLE_S: f64 = 0.01;

impl PolicyDriver<'_> {
    pub(super) fn look_at(&mut self, swarm: &Swarm, request: usize) -> Step {
        match swarm.requests[request].phase {
            Phase::Queued { worker } if self.is_corrected() => self.look_at_queued(swarm, request, worker),
            Phase::Decoding { worker } if self.kind == PolicyKind::HazardBlocking => {
                self.look_as_given(swarm, request, worker)
            }
            Phase::Decoding { worker } => self.look_at_running(swarm, request, worker),
            Phase::Pending
            | Phase::Unnoticed
            | Phase::Queued { .. }
            | Phase::Starting { .. }
            | Phase::Filling { .. }
            | Phase::Finished => Step::Stay,
        }
    }

    fn look_at_queued(&mut self, swarm: &Swarm, request: usize, worker: usize) -> Step {
        let is_going = !swarm.peers[worker].takes_work();
        if !(self.parts.has(Part::Requeue) || is_going) {
            return Step::Stay;
        }
        let wanted = self.wanted(swarm, request);
        let offers = self.offers(swarm, request);
        self.refresh(swarm.now_s, offers.iter().map(|(peer, _)| *peer));
        match self.place_corrected(swarm, request, &wanted, &offers) {
            Some(to) if to != worker => Step::Requeue { to },
            Some(_) | None => Step::Stay,
        }
    }

    /// By the corrected rule, or by an oracle's.
    fn look_at_running(&mut self, swarm: &Swarm, request: usize, worker: usize) -> Step {
        let wanted = self.wanted(swarm, request);
        let leaving = if self.heeds_notices() { leaving(swarm, worker) } else { Leaving::Unannounced };
        let known_s = self.known_remaining_s(swarm, worker);
        if self.kind.is_oracle() && !is_near(known_s) {
            return Step::Stay;
        }
        self.refresh(swarm.now_s, core::iter::once(worker));
        let live = &swarm.requests[request];
        if leaving == Leaving::Unannounced && live.standby.is_none() && !self.is_at_risk(swarm, worker, &wanted) {
            return Step::Stay;
        }
        let destinations = self.destinations(swarm, request, worker, &wanted);
        self.refresh(swarm.now_s, destinations.iter().map(|(peer, _)| *peer));
        let this = &*self;
        let candidates: Vec<Candidate<'_, usize>> = destinations
            .iter()
            .map(|(peer, offer)| Candidate {
                host: this.host(swarm, *peer, offer),
                path: Some(path(swarm, worker, *peer)),
            })
            .collect();
        let standby = live.standby.map(|standby| Standby {
            at: standby.peer,
            way: standby.way,
            lag_tokens: standby.lag_tokens.ceil() as u32,
            is_paused: standby.is_paused,
        });
        let decision = self.policy.decide(&RunningRequest {
            source: this.source(swarm, request, worker),
            context_tokens: live.context_tokens(),
            residual: wanted.residual,
            hops: live.outcome.planned,
            leaving,
            standby,
            candidates: &candidates,
        });
        self.allowed(decision.action, leaving)
    }

    /// What the rule says, without the parts that are left out. What is announced is always acted upon.
    fn allowed(&self, action: Action<usize>, leaving: Leaving) -> Step {
        let is_announced = leaving != Leaving::Unannounced || self.kind.is_oracle();
        match action {
            Action::Stay => Step::Stay,
            Action::Prepare { .. } if !(is_announced || self.parts.has(Part::Prepare)) => Step::Stay,
            Action::Prepare { destination, way } => Step::Prepare { to: destination, way },
            Action::Hold { .. } => Step::Hold,
            Action::Pause { .. } => Step::Pause,
            Action::Commit { .. } if !(is_announced || self.parts.has(Part::Commit)) => Step::Hold,
            Action::Commit { destination, way } => Step::Commit { to: destination, way },
            Action::Release { .. } => Step::Release,
        }
    }

    /// The peer that runs it: it does not wait for those behind it.
    fn source(&self, swarm: &Swarm, request: usize, worker: usize) -> Host<'_, usize> {
        let peer = &swarm.peers[worker];
        let running = swarm.requests[request].decode_tps;
        let alone = rates(peer, peer.active.len() as u32);
        let decode_tps = if running > 0.0 { running } else { alone.decode_tps };
        Host {
            known_remaining_s: self.known_remaining_s(swarm, worker),
            ..Host::new(worker, crate::cost::PeerRates { decode_tps, ..alone }, self.hazard(swarm.now_s, worker))
        }
    }

    /// Whether a departure is expected to cost anything.
    fn is_at_risk(&self, swarm: &Swarm, worker: usize, wanted: &Wanted) -> bool {
        if self.kind.is_oracle() {
            return true;
        }
        let peer = &swarm.peers[worker];
        let time_s = wanted.residual.most_tokens() / peer.batching.decode_tps(peer.active.len().max(1) as u32);
        let leaves = self.hazard(swarm.now_s, worker).leave_probability(time_s);
        let context_tokens = f64::from(wanted.work.context_tokens) + wanted.residual.most_tokens();
        leaves * (context_tokens / peer.spec.prefill_tps) > NEGLIGIBLE_S
    }

    /// The standby, and the best of those that take work: least T, and what their departure is expected to cost.
    fn destinations(&mut self, swarm: &Swarm, request: usize, worker: usize, wanted: &Wanted) -> Vec<(usize, Offer)> {
        let standby = swarm.requests[request].standby.map(|standby| standby.peer);
        let limit = self.parts.overlapped.limits.utilisation_max;
        let mut ranked: Vec<(f64, usize, Offer)> = self
            .offers(swarm, request)
            .into_iter()
            .filter(|(peer, _)| {
                // Others would be vetoed.
                let known = &swarm.peers[*peer];
                let is_free = known.queue.is_empty() && known.utilisation() <= limit;
                is_free && *peer != worker && Some(*peer) != standby
            })
            .map(|(peer, offer)| (time_s(&offer, wanted), peer, offer))
            .collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !self.kind.is_oracle() {
            ranked.truncate(LOOKS_MAX);
        }
        self.refresh(swarm.now_s, ranked.iter().map(|(_, peer, _)| *peer));
        let price_s = self.parts.overlapped.prices.placement_loss_s;
        for (rank_s, peer, _) in &mut ranked {
            let leaves = match self.known_remaining_s(swarm, *peer) {
                Some(known_s) => f64::from(u8::from(known_s < *rank_s)),
                None => self.hazard(swarm.now_s, *peer).leave_probability(*rank_s),
            };
            *rank_s += price_s * leaves;
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(DESTINATIONS_MAX);
        let standby = standby.filter(|peer| swarm.peers[*peer].takes_work());
        let own = standby.map(|peer| (peer, offer(swarm, &self.lengths, peer, request)));
        own.into_iter().chain(ranked.into_iter().map(|(_, peer, offer)| (peer, offer))).collect()
    }

    /// By the rule as given.
    fn look_as_given(&mut self, swarm: &Swarm, request: usize, worker: usize) -> Step {
        let live = &swarm.requests[request];
        let wanted = self.wanted(swarm, request);
        let offers = self.offers(swarm, request);
        self.refresh(swarm.now_s, offers.iter().map(|(peer, _)| *peer).chain([worker]));
        let this = &*self;
        let fleet_peer = |id: usize, offer: &Offer| FleetPeer {
            id,
            rates: offer.rates,
            load_s: if id == worker { 0.0 } else { offer.wait_s },
            hazard: this.hazard(swarm.now_s, id),
            known_remaining_s: None,
        };
        let mut peers: Vec<_> = offers.iter().map(|(peer, offer)| fleet_peer(*peer, offer)).collect();
        if peers.iter().all(|peer| peer.id != worker) {
            let own = offer(swarm, &this.lengths, worker, request);
            peers.push(fleet_peer(worker, &own));
        }
        let expected = live.done_tokens().saturating_add(wanted.residual.mean_tokens().round() as u32);
        let running = Running {
            current: worker,
            work: Work::running(live.arrival.prompt_tokens, expected, live.done_tokens()),
            own_load_s: 0.0,
            hops: live.outcome.planned,
        };
        match self.policy.should_migrate(&Fleet::new(peers), &running).decision {
            MoveDecision::Move { to, planned } => Step::Move { to, planned },
            MoveDecision::Stay(_) => Step::Stay,
        }
    }
}

/// Whether a departure that is known is near enough to be prepared for.
pub(super) fn is_near(known_s: Option<f64>) -> bool {
    known_s.is_some_and(|known_s| known_s <= ORACLE_LEAD_S)
}

/// What a peer has said of its departure.
pub(super) fn leaving(swarm: &Swarm, peer: usize) -> Leaving {
    swarm.peers[peer].leaves.map_or(Leaving::Unannounced, |leaves| {
        let left_ms = ((leaves.at_s - swarm.now_s) * 1000.0).max(0.0);
        Leaving::Announced { cause: leaves.cause, notice_ms: left_ms as u32, decodes: leaves.decodes }
    })
}

fn path(swarm: &Swarm, from: usize, to: usize) -> Path {
    let bytes = |peer: usize| swarm.peers[peer].spec.kv_bytes_per_token;
    Path {
        goodput_bps: swarm.network.goodput_bps(from, to),
        round_trip_s: swarm.network.round_trip_s(from, to),
        budget_bytes: None,
        has_same_layout: bytes(from) == bytes(to),
    }
}

/// Whether KV travels in this way.
pub(crate) fn carries_kv(way: Way) -> bool {
    !matches!(way, Way::Ids)
}
