//! Giving requests to peers and taking them away: slots, queues, memory, standbys.

use super::{Event, Filling, Live, Phase, Presence, Standby, Swarm};
use crate::cost::{Way, round_s};

/// How a request gets to a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Assignment {
    /// Which peer.
    pub(crate) to: usize,
    /// Tokens of the context that it lacks.
    pub(crate) left_tokens: f64,
    /// Seconds before it begins.
    pub(crate) overhead_s: f64,
    /// The peer that sends KV.
    pub(crate) source: Option<usize>,
    /// Whether it prefills as well.
    pub(crate) may_prefill: bool,
}

impl Swarm {
    /// Hands a request that nobody has to a peer, which begins it or has it wait.
    pub(crate) fn assign(&mut self, request: usize, assignment: Assignment) {
        let Assignment { to, left_tokens, overhead_s, source, may_prefill } = assignment;
        self.requests[request].advance(self.now_s);
        self.drop_standby(request);
        let kv_bytes_per_token = self.peers[to].spec.kv_bytes_per_token;
        let live = &mut self.requests[request];
        (live.left_tokens, live.source, live.may_prefill) = (left_tokens, source, may_prefill);
        live.kv_bytes_per_token = kv_bytes_per_token;
        live.epoch += 1;
        let epoch = live.epoch;
        self.note(format_args!("request {request} to peer {to}, {left_tokens:.3} tokens missing"));
        if self.peers[to].queue.is_empty() && self.has_room(to, request) {
            self.begin(request, to, overhead_s);
        } else {
            self.requests[request].phase = Phase::Queued { worker: to };
            self.peers[to].queue.push_back(request);
        }
        self.events.push(self.now_s + self.world.check_interval_s, Event::Check { request, epoch });
    }

    /// Gives slots that are free to those that wait.
    pub(crate) fn admit(&mut self, peer: usize) {
        while let Some(&request) = self.peers[peer].queue.front() {
            if !(self.peers[peer].is_here() && self.has_room(peer, request)) {
                break;
            }
            self.peers[peer].queue.pop_front();
            let overhead_s = if self.requests[request].is_again { self.world.overheads.recompute_s } else { 0.0 };
            self.begin(request, peer, overhead_s);
        }
    }

    /// Whether the peer has a slot and memory for one more. Preparations give way. One that fits nowhere is taken where it has
    /// the machine to itself.
    fn has_room(&mut self, peer: usize, request: usize) -> bool {
        if !self.peers[peer].has_slot() {
            return false;
        }
        let most = u64::from(self.peers[peer].spec.kv_tokens);
        let needed = self.requests[request].reserved_tokens();
        let reserved =
            |swarm: &Self, of: &[usize]| of.iter().map(|at| swarm.requests[*at].reserved_tokens()).sum::<u64>();
        let active = reserved(self, &self.peers[peer].active);
        if active + needed > most && active > 0 {
            return false;
        }
        while active + needed + reserved(self, &self.peers[peer].standbys) > most {
            let Some(&last) = self.peers[peer].standbys.last() else { break };
            self.drop_standby(last);
        }
        true
    }

    fn begin(&mut self, request: usize, peer: usize, overhead_s: f64) {
        self.peers[peer].active.push(request);
        let until_s = self.now_s + overhead_s;
        self.requests[request].phase = Phase::Starting { worker: peer, until_s };
        self.touch(request);
        if overhead_s <= 0.0 {
            self.begin_filling(request, peer);
        }
    }

    /// Its worker sets to work: on what is missing, or on the next token.
    pub(crate) fn begin_filling(&mut self, request: usize, worker: usize) {
        let is_gone = |source: usize| self.peers[source].presence == Presence::Away;
        let has_lost_source = self.requests[request].source.is_some_and(is_gone);
        let live = &mut self.requests[request];
        if has_lost_source {
            // It left while the request waited for its slot.
            (live.source, live.may_prefill) = (None, true);
        }
        live.phase = Phase::Filling { worker };
        live.filling = Filling::default();
        if live.left_tokens <= super::NOTHING_TOKENS {
            self.begin_decoding(request, worker);
        }
        self.mark(worker);
    }

    pub(crate) fn begin_decoding(&mut self, request: usize, worker: usize) {
        self.network.end(request);
        let now_s = self.now_s;
        self.requests[request].begin_decoding(worker, now_s);
        self.note(format_args!("request {request} decodes on peer {worker}"));
        self.mark(worker);
    }

    /// Takes a request from whoever has it. What was not finished there is lost.
    pub(crate) fn take_away(&mut self, request: usize, phase: Phase) {
        self.requests[request].advance(self.now_s);
        if let Some(worker) = self.requests[request].phase.worker() {
            let peer = &mut self.peers[worker];
            peer.active.retain(|at| *at != request);
            peer.queue.retain(|at| *at != request);
            self.mark(worker);
        }
        self.network.end(request);
        self.requests[request].stop(phase);
        self.touch(request);
        if let Some(standby) = self.requests[request].standby {
            self.mark(standby.peer);
        }
    }

    /// Has a peer prepare, or go on to.
    pub(crate) fn prepare(&mut self, request: usize, peer: usize, way: Way) {
        self.requests[request].advance(self.now_s);
        let known = self.requests[request].standby.filter(|standby| standby.peer == peer);
        if let Some(standby) = known {
            if standby.is_paused {
                self.set_paused(request, false);
            }
            return;
        }
        self.drop_standby(request);
        let overheads = &self.world.overheads;
        let overhead_s = match way {
            Way::PreCopy => overheads.transfer_s,
            Way::Ids | Way::Hybrid | Way::StoppedSplit => overheads.recompute_s,
        };
        let live = &mut self.requests[request];
        live.standby = Some(Standby {
            peer,
            way,
            lag_tokens: f64::from(live.context_tokens()),
            begins_s: self.now_s + overhead_s,
            is_paused: false,
            filling: Filling::default(),
        });
        live.outcome.preparations += 1;
        self.peers[peer].standbys.push(request);
        self.note(format_args!("request {request} is prepared on peer {peer}"));
        self.mark(peer);
        self.touch(request);
    }

    pub(crate) fn set_paused(&mut self, request: usize, is_paused: bool) {
        self.requests[request].advance(self.now_s);
        if let Some(standby) = &mut self.requests[request].standby {
            standby.is_paused = is_paused;
            let peer = standby.peer;
            self.mark(peer);
        }
    }

    /// Gives up what was prepared.
    pub(crate) fn drop_standby(&mut self, request: usize) {
        self.requests[request].advance(self.now_s);
        if let Some(standby) = self.requests[request].standby.take() {
            self.peers[standby.peer].standbys.retain(|at| *at != request);
            self.network.end(request);
            self.mark(standby.peer);
            self.touch(request);
        }
    }

    /// Tokens that the standby lacks when it takes over: even one that keeps up lacks its last round, or its last block.
    pub(crate) fn lag_at_hand_over(&self, live: &Live, standby: &Standby) -> f64 {
        let spec = &self.peers[standby.peer].spec;
        let last = match standby.way {
            Way::Ids => live.decode_tps * round_s(spec.decode_tps, spec.prefill_tps),
            Way::PreCopy | Way::Hybrid | Way::StoppedSplit => self.world.overheads.block_tokens,
        };
        standby.lag_tokens.max(last).min(f64::from(live.context_tokens()))
    }
}
