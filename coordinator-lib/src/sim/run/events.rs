//! What happens, and to whom.

use super::Simulation;
use crate::sim::driver::Step;
use crate::sim::scenario::{Departure, Stay};
use crate::sim::world::{Event, Leaves, Live, NOTHING_TOKENS, Phase, Presence};

impl Simulation<'_> {
    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Begins { peer, stay } => self.handle_begin(peer, stay),
            Event::Announces { peer, stay } => self.handle_announcement(peer, stay),
            Event::Ends { peer, stay } => self.handle_end(peer, stay),
            Event::Gone { peer, stay } => self.handle_gone(peer, stay),
            Event::Arrives => self.handle_arrival(),
            Event::Progress { request, generation } => self.handle_progress(request, generation),
            Event::Noticed { request, epoch } => self.handle_notice_of_loss(request, epoch),
            Event::Check { request, epoch } => self.handle_check(request, epoch),
        }
    }

    fn stay(&self, peer: usize, stay: usize) -> Option<Stay> {
        self.scenario.stays[peer].get(stay).copied()
    }

    fn handle_begin(&mut self, peer: usize, at: usize) {
        let Some(stay) = self.stay(peer, at) else { return };
        let now_s = self.swarm.now_s;
        // Whatever it held from the stay before is gone by now.
        self.forget_held(peer);
        self.swarm.note(format_args!("peer {peer} begins"));
        let known = &mut self.swarm.peers[peer];
        known.count(now_s, self.swarm.counts_from_s);
        (known.presence, known.leaves, known.stay) = (Presence::Here, None, at);
        self.driver.begin(now_s, peer);
        if let Departure::Announced { notice_s, .. } = stay.departure {
            self.swarm.events.push((stay.end_s - notice_s).max(now_s), Event::Announces { peer, stay: at });
        }
        self.swarm.events.push(stay.end_s, Event::Ends { peer, stay: at });
        if let Some(next) = self.stay(peer, at + 1) {
            self.swarm.events.push(next.start_s, Event::Begins { peer, stay: at + 1 });
        }
        self.is_retry_due = true;
        self.swarm.mark(peer);
    }

    fn handle_announcement(&mut self, peer: usize, at: usize) {
        let Some(stay) = self.stay(peer, at).filter(|_| self.swarm.peers[peer].stay == at) else { return };
        if !self.swarm.peers[peer].is_here() {
            return;
        }
        self.swarm.note(format_args!("peer {peer} will leave"));
        let cause = stay.departure.cause();
        self.swarm.peers[peer].leaves = Some(Leaves { at_s: stay.end_s, cause, decodes: true });
        self.swarm.mark(peer);
        let concerned: Vec<usize> = {
            let known = &self.swarm.peers[peer];
            known.active.iter().chain(&known.queue).chain(&known.standbys).copied().collect()
        };
        for request in concerned {
            let epoch = self.swarm.requests[request].epoch;
            self.swarm.events.push(self.swarm.now_s, Event::Check { request, epoch });
        }
    }

    fn handle_end(&mut self, peer: usize, at: usize) {
        let Some(stay) = self.stay(peer, at).filter(|_| self.swarm.peers[peer].stay == at) else { return };
        let now_s = self.swarm.now_s;
        self.swarm.note(format_args!("peer {peer} ends"));
        self.swarm.peers[peer].count(now_s, self.swarm.counts_from_s);
        self.driver.end(now_s, peer, stay.is_end_seen.then(|| stay.departure.cause()));
        match stay.departure {
            Departure::Silent { .. } => self.leave(peer, self.swarm.world.detection_s),
            // The connection closes, and so everybody knows.
            Departure::Announced { .. } => self.leave(peer, 0.0),
            Departure::Stops { grace_s } => {
                let cause = stay.departure.cause();
                let known = &mut self.swarm.peers[peer];
                known.presence = Presence::Stopped;
                known.leaves = Some(Leaves { at_s: now_s + grace_s, cause, decodes: false });
                self.swarm.events.push(now_s + grace_s, Event::Gone { peer, stay: at });
                self.rescue(peer);
                self.leave_to_others(peer, 0.0);
            }
        }
    }

    /// It is gone with all that it held.
    fn leave(&mut self, peer: usize, detection_s: f64) {
        self.swarm.peers[peer].presence = Presence::Away;
        self.leave_to_others(peer, detection_s);
        self.forget_held(peer);
        self.swarm.peers[peer].leaves = None;
    }

    fn handle_gone(&mut self, peer: usize, at: usize) {
        let known = &mut self.swarm.peers[peer];
        if known.stay == at && known.presence == Presence::Stopped {
            known.presence = Presence::Away;
            known.leaves = None;
            self.forget_held(peer);
        }
    }

    /// Nobody gets KV from it any more: what is missing is made from the ids.
    fn forget_held(&mut self, peer: usize) {
        let of_peer: Vec<usize> =
            self.swarm.network.flows_of(peer).filter(|(_, flow)| flow.from == peer).map(|(of, _)| of).collect();
        for request in of_peer {
            self.swarm.requests[request].advance(self.swarm.now_s);
            let live = &mut self.swarm.requests[request];
            if live.source == Some(peer) {
                (live.source, live.may_prefill) = (None, true);
            }
            self.swarm.network.end(request);
            self.swarm.touch(request);
            if let Some(worker) = self.swarm.requests[request].phase.active_at() {
                self.swarm.mark(worker);
            }
        }
    }

    /// What runs on a peer that computes no more goes where its context can be had from memory, if the driver says so.
    fn rescue(&mut self, peer: usize) {
        if !self.driver.heeds_notices() {
            return;
        }
        for request in self.swarm.peers[peer].active.clone() {
            self.swarm.requests[request].advance(self.swarm.now_s);
            let step = self.driver.look(&self.swarm, request);
            if let Step::Commit { to, way } = step
                && self.can_begin(to)
            {
                self.count_loss(request);
                self.swarm.requests[request].outcome.rescued += 1;
                self.commit(request, to, way, false);
            }
        }
    }

    /// All that ran, waited or was prepared there is others' business from now on.
    fn leave_to_others(&mut self, peer: usize, detection_s: f64) {
        for request in self.swarm.peers[peer].standbys.clone() {
            self.swarm.drop_standby(request);
        }
        let running = self.swarm.peers[peer].active.clone();
        let waiting: Vec<usize> = self.swarm.peers[peer].queue.iter().copied().collect();
        for request in running {
            self.count_loss(request);
            self.swarm.requests[request].stall(self.swarm.now_s, false);
            self.orphan(request, detection_s);
        }
        for request in waiting {
            self.orphan(request, detection_s);
        }
        self.swarm.mark(peer);
    }

    fn orphan(&mut self, request: usize, detection_s: f64) {
        self.swarm.take_away(request, Phase::Unnoticed);
        let epoch = self.swarm.requests[request].epoch;
        self.swarm.note(format_args!("request {request} is lost"));
        self.swarm.events.push(self.swarm.now_s + detection_s, Event::Noticed { request, epoch });
    }

    fn count_loss(&mut self, request: usize) {
        self.swarm.requests[request].advance(self.swarm.now_s);
        let limit_tokens = {
            let live = &self.swarm.requests[request];
            self.swarm.world.overheads.lag_limit_tokens(live.decode_tps)
        };
        let live = &mut self.swarm.requests[request];
        live.outcome.losses += 1;
        let is_covered = live.standby.is_some_and(|standby| !standby.is_paused && standby.lag_tokens <= limit_tokens);
        live.outcome.uncovered += u32::from(!is_covered);
    }

    fn handle_arrival(&mut self) {
        let number = self.swarm.requests.len();
        let Some(arrival) = self.scenario.arrivals.get(number).copied() else { return };
        if arrival.at_s >= self.scenario.span.duration_s {
            return;
        }
        let expected_tokens = self.driver.expect(&arrival);
        self.swarm.requests.push(Live { expected_tokens, ..Live::new(arrival) });
        self.unfinished += 1;
        self.swarm.note(format_args!("request {number} arrives"));
        if let Some(next) = self.scenario.arrivals.get(number + 1) {
            self.swarm.events.push(next.at_s, Event::Arrives);
        }
        self.place(number);
    }

    fn handle_progress(&mut self, request: usize, generation: u32) {
        if self.swarm.requests[request].generation != generation {
            return;
        }
        let now_s = self.swarm.now_s;
        self.swarm.requests[request].advance(now_s);
        self.swarm.touch(request);
        let live = &self.swarm.requests[request];
        match live.phase {
            Phase::Starting { worker, until_s } if now_s >= until_s => self.swarm.begin_filling(request, worker),
            Phase::Filling { worker } if live.left_tokens <= NOTHING_TOKENS => {
                self.swarm.begin_decoding(request, worker);
            }
            Phase::Decoding { worker } if f64::from(live.arrival.output_tokens) - live.done <= NOTHING_TOKENS => {
                self.end_request(request, worker);
            }
            Phase::Pending
            | Phase::Unnoticed
            | Phase::Queued { .. }
            | Phase::Starting { .. }
            | Phase::Filling { .. }
            | Phase::Decoding { .. }
            | Phase::Finished => {}
        }
        if let Some(standby) = self.swarm.requests[request].standby {
            self.swarm.mark(standby.peer);
        }
    }

    fn end_request(&mut self, request: usize, worker: usize) {
        self.swarm.drop_standby(request);
        let now_s = self.swarm.now_s;
        self.swarm.take_away(request, Phase::Finished);
        let live = &mut self.swarm.requests[request];
        live.outcome.finished_s = Some(now_s);
        let arrival = live.arrival;
        self.unfinished -= 1;
        self.swarm.note(format_args!("request {request} is finished, {} tokens", arrival.output_tokens));
        self.driver.finished(&arrival);
        self.swarm.admit(worker);
    }

    /// The origin notices that the worker is gone: on with the standby, or anew.
    fn handle_notice_of_loss(&mut self, request: usize, epoch: u32) {
        let live = &self.swarm.requests[request];
        if live.epoch != epoch || live.phase != Phase::Unnoticed {
            return;
        }
        let standby = live.standby.map(|standby| standby.peer);
        match standby.filter(|peer| self.can_begin(*peer)) {
            Some(_) => self.take_over(request),
            None => self.place(request),
        }
    }

    fn handle_check(&mut self, request: usize, epoch: u32) {
        if self.swarm.requests[request].epoch != epoch || !self.driver.looks() {
            return;
        }
        let Some(worker) = self.swarm.requests[request].phase.worker() else { return };
        self.swarm.requests[request].advance(self.swarm.now_s);
        let step = self.driver.look(&self.swarm, request);
        self.carry_out(request, step);
        let is_same = self.swarm.requests[request].epoch == epoch;
        if is_same {
            let world = &self.swarm.world;
            let is_urgent = self.driver.is_urgent(&self.swarm, worker);
            let interval_s = if is_urgent { world.leaving_interval_s } else { world.check_interval_s };
            self.swarm.events.push(self.swarm.now_s + interval_s, Event::Check { request, epoch });
        }
    }
}
