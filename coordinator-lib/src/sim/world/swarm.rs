//! All machines and requests at one moment, and how rates are settled after something has changed.

use core::cmp::Reverse;
use core::fmt;
use std::collections::BTreeSet;

use super::peer::Demand;
use super::{Filling, Live, Network, Peer, Phase, Standby};
use crate::cost::Way;
use crate::sim::queue::Queue;
use crate::sim::scenario::{Scenario, World};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    /// A peer begins its stay of this number.
    Begins { peer: usize, stay: usize },
    /// It says that it will leave.
    Announces { peer: usize, stay: usize },
    /// It leaves, or its owner is back.
    Ends { peer: usize, stay: usize },
    /// What it still held is gone.
    Gone { peer: usize, stay: usize },
    /// The next request comes.
    Arrives,
    /// A request gets somewhere, unless something happened before that.
    Progress { request: usize, generation: u32 },
    /// Its origin notices that its worker is gone.
    Noticed { request: usize, epoch: u32 },
    /// It is looked at.
    Check { request: usize, epoch: u32 },
}

/// How often one event may settle the rates of peers, each for a change that another's brought about: what is left after that
/// is next to nothing, since a standby takes a small part of what its source takes.
const SETTLE_ROUNDS: usize = 4;

/// A rate that changed by less than this part did not change.
const SAME_RATE: f64 = 1e-9;

/// The world at one moment.
#[derive(Debug)]
pub(crate) struct Swarm {
    pub(crate) world: World,
    pub(crate) now_s: f64,
    /// From when on things count.
    pub(crate) counts_from_s: f64,
    pub(crate) peers: Vec<Peer>,
    pub(crate) requests: Vec<Live>,
    pub(crate) network: Network,
    pub(crate) events: Queue<Event>,
    /// Peers that take work and would begin it at once, the fastest first, as of the last time that rates were settled.
    free: BTreeSet<(Reverse<u64>, usize)>,
    /// Peers whose rates must be settled, and requests whose next event must be found.
    dirty: BTreeSet<usize>,
    touched: BTreeSet<usize>,
    log: Option<String>,
}

impl Swarm {
    pub(crate) fn new(scenario: &Scenario, keeps_log: bool) -> Self {
        Self {
            world: scenario.world,
            now_s: 0.0,
            counts_from_s: scenario.span.warmup_s,
            peers: scenario.peers.iter().cloned().map(Peer::new).collect(),
            requests: Vec::with_capacity(scenario.arrivals.len()),
            network: Network::new(scenario.peers.iter().map(|peer| peer.link).collect()),
            events: Queue::new(),
            free: BTreeSet::new(),
            dirty: BTreeSet::new(),
            touched: BTreeSet::new(),
            log: keeps_log.then(String::new),
        }
    }

    /// Writes a line into the log, if one is kept.
    pub(crate) fn note(&mut self, line: fmt::Arguments<'_>) {
        if let Some(log) = &mut self.log {
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(log, format_args!("{:.6} {line}\n", self.now_s));
        }
    }

    /// What was written.
    pub(crate) fn take_log(&mut self) -> String {
        self.log.take().unwrap_or_default()
    }

    /// Peers that would begin work at once, the fastest first.
    pub(crate) fn free_peers(&self) -> impl Iterator<Item = usize> {
        self.free.iter().map(|(_, peer)| *peer)
    }

    /// Keeps the list of free peers.
    fn list(&mut self, peer: usize) {
        let known = &self.peers[peer];
        // Bits of positive numbers are in the order of the numbers.
        let entry = (Reverse(known.spec.decode_tps.to_bits()), peer);
        if known.takes_work() && known.has_slot() && known.queue.is_empty() {
            self.free.insert(entry);
        } else {
            self.free.remove(&entry);
        }
    }

    /// The rates of the peer's requests and preparations must be settled.
    pub(crate) fn mark(&mut self, peer: usize) {
        self.dirty.insert(peer);
    }

    /// The next event of the request must be found anew.
    pub(crate) fn touch(&mut self, request: usize) {
        self.touched.insert(request);
    }

    /// Settles all rates, and finds when those whose rates changed get somewhere.
    pub(crate) fn settle(&mut self) {
        for _ in 0..SETTLE_ROUNDS {
            let dirty = core::mem::take(&mut self.dirty);
            if dirty.is_empty() {
                break;
            }
            for peer in dirty {
                self.refresh(peer);
            }
        }
        self.dirty.clear();
        for request in self.network.share() {
            self.touched.insert(request);
        }
        for request in core::mem::take(&mut self.touched) {
            self.requests[request].advance(self.now_s);
            self.set_link_rate(request);
            let live = &mut self.requests[request];
            live.generation += 1;
            let (at_s, generation) = (live.next_s(self.now_s), live.generation);
            self.events.push(at_s, Event::Progress { request, generation });
        }
    }

    fn set_link_rate(&mut self, request: usize) {
        let flow = self.network.flow(request).copied();
        let live = &mut self.requests[request];
        let bytes = live.kv_bytes_per_token;
        let link_tps = |to: usize| flow.filter(|flow| flow.to == to).map_or(0.0, |flow| flow.rate_bps / bytes);
        if let Phase::Filling { worker } = live.phase {
            live.filling.link_tps = link_tps(worker);
        }
        if let Some(standby) = &mut live.standby {
            standby.filling.link_tps = link_tps(standby.peer);
        }
    }

    /// Shares the peer's time anew among those that it works for.
    fn refresh(&mut self, peer: usize) {
        let (now_s, counts_from_s) = (self.now_s, self.counts_from_s);
        self.peers[peer].count(now_s, counts_from_s);
        self.list(peer);
        let (active, standbys) = (self.peers[peer].active.clone(), self.peers[peer].standbys.clone());
        for request in active.iter().chain(&standbys) {
            self.requests[*request].advance(now_s);
        }
        let first = active.iter().copied().find(|request| self.wants_prefill(*request));
        let demand = self.demand(peer, &active, &standbys, first.is_some());
        let shares = demand.share(&self.world);
        let is_here = self.peers[peer].is_here();
        let (shares, following_part) =
            if is_here { (shares, shares.following_part) } else { (super::peer::Shares::default(), 0.0) };
        let decode_tps = if demand.decoding > 0 {
            shares.decode * self.peers[peer].batching.decode_tps(demand.decoding)
        } else {
            0.0
        };
        for request in active {
            let prefill = if first == Some(request) { shares.prefill } else { 0.0 };
            self.set_worker_rates(request, peer, decode_tps, prefill);
        }
        for request in standbys {
            self.set_standby_rates(request, peer, shares.catching_up, following_part);
        }
        let preparing = f64::from(demand.catching_up) * shares.catching_up + demand.following * following_part;
        self.peers[peer].busy_share = shares.decode + shares.prefill + preparing;
    }

    fn wants_prefill(&self, request: usize) -> bool {
        let live = &self.requests[request];
        matches!(live.phase, Phase::Filling { .. }) && live.may_prefill && live.left_tokens > super::NOTHING_TOKENS
    }

    fn demand(&self, peer: usize, active: &[usize], standbys: &[usize], prefills: bool) -> Demand {
        let decodes = |request: &&usize| matches!(self.requests[**request].phase, Phase::Decoding { .. });
        let mut demand =
            Demand { decoding: active.iter().filter(decodes).count() as u32, prefills, ..Demand::default() };
        for request in standbys {
            let live = &self.requests[*request];
            let Some(standby) = live.standby.filter(|standby| standby.works(self.now_s)) else { continue };
            if !self.computes(*request, &standby) {
                continue;
            }
            if standby.keeps_up() {
                demand.following += live.coming_tps() / self.peers[peer].spec.prefill_tps;
            } else {
                demand.catching_up += 1;
            }
        }
        demand
    }

    /// Whether the standby prefills: in some ways only KV comes. Once it keeps up, one of both is enough.
    fn computes(&self, request: usize, standby: &Standby) -> bool {
        match standby.way {
            Way::Ids => true,
            Way::PreCopy => false,
            Way::Hybrid | Way::StoppedSplit => !(standby.keeps_up() && self.link_is_enough(request, standby)),
        }
    }

    fn link_is_enough(&self, request: usize, standby: &Standby) -> bool {
        let live = &self.requests[request];
        let needed_bps = 2.0 * live.coming_tps() * live.kv_bytes_per_token;
        let source = live.phase.active_at();
        source.is_some_and(|source| self.network.goodput_bps(source, standby.peer) >= needed_bps)
    }

    fn set_worker_rates(&mut self, request: usize, peer: usize, decode_tps: f64, prefill: f64) {
        self.touched.insert(request);
        let prefill_tps = self.peers[peer].spec.prefill_tps;
        let live = &mut self.requests[request];
        match live.phase {
            Phase::Decoding { .. } => {
                let has_changed = (live.decode_tps - decode_tps).abs() > SAME_RATE * decode_tps;
                live.decode_tps = decode_tps;
                if let Some(standby) = live.standby.filter(|_| has_changed) {
                    self.dirty.insert(standby.peer);
                }
                return;
            }
            Phase::Filling { .. } => {
                live.filling = Filling { compute_tps: prefill * prefill_tps, share: prefill, ..live.filling };
            }
            Phase::Pending | Phase::Unnoticed | Phase::Queued { .. } | Phase::Starting { .. } | Phase::Finished => {
                return;
            }
        }
        let source = live.source;
        match source {
            Some(source) => self.network.ask(request, source, peer, f64::INFINITY),
            None => self.network.end(request),
        };
    }

    fn set_standby_rates(&mut self, request: usize, peer: usize, catching_up: f64, following_part: f64) {
        self.touched.insert(request);
        let live = &self.requests[request];
        let Some(standby) = live.standby else { return };
        let (coming_tps, bytes, source) = (live.coming_tps(), live.kv_bytes_per_token, live.phase.active_at());
        let prefill_tps = self.peers[peer].spec.prefill_tps;
        let share = match (standby.works(self.now_s) && self.computes(request, &standby), standby.keeps_up()) {
            (false, _) => 0.0,
            (true, true) => following_part * coming_tps / prefill_tps,
            (true, false) => catching_up,
        };
        let has_kv = match standby.way {
            Way::Ids => false,
            Way::PreCopy => true,
            Way::Hybrid | Way::StoppedSplit => !standby.keeps_up() || self.link_is_enough(request, &standby),
        };
        // Only who runs it has KV to send.
        let source = source.filter(|_| has_kv && standby.works(self.now_s) && coming_tps > 0.0);
        match source {
            Some(source) if source != peer => {
                let demand_bps = if standby.keeps_up() { coming_tps * bytes } else { f64::INFINITY };
                self.network.ask(request, source, peer, demand_bps);
            }
            Some(_) | None => {
                self.network.end(request);
            }
        }
        if let Some(standby) = &mut self.requests[request].standby {
            standby.filling = Filling { compute_tps: share * prefill_tps, share, ..standby.filling };
        }
    }

    /// What is wrong with the world, if anything is: what no event may ever bring about.
    #[cfg(test)]
    pub(crate) fn fault(&self) -> Option<String> {
        for (at, peer) in self.peers.iter().enumerate() {
            if peer.busy_share > 1.0 + 1e-9 || (!peer.is_here() && peer.busy_share > 0.0) {
                return Some(format!("peer {at} is {:?} and {} busy", peer.presence, peer.busy_share));
            }
            if peer.active.len() > usize::from(peer.spec.slots) {
                return Some(format!("peer {at} has more requests than slots"));
            }
        }
        for (at, live) in self.requests.iter().enumerate().filter(|(_, live)| live.phase != Phase::Finished) {
            let holders = self.peers.iter().filter(|peer| peer.active.contains(&at) || peer.queue.contains(&at));
            let worker = live.phase.worker();
            if holders.count() != usize::from(worker.is_some()) {
                return Some(format!("request {at} is {:?}, and not in one place", live.phase));
            }
            if let Some(flow) = self.network.flow(at)
                && self.peers[flow.from].presence == super::Presence::Away
            {
                return Some(format!("request {at} gets KV from peer {}, which is away", flow.from));
            }
            let works = live.decode_tps > 0.0 || live.filling.gain_tps() > 0.0;
            if works && worker.is_none_or(|worker| !self.peers[worker].is_here()) {
                return Some(format!("request {at} goes on without a worker: {live:?}"));
            }
            if let Some(standby) = &live.standby
                && standby.filling.gain_tps() > 0.0
                && !self.peers[standby.peer].is_here()
            {
                return Some(format!("request {at} is prepared by a peer that is away"));
            }
        }
        None
    }
}
