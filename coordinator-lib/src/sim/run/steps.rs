//! What is done about it.

use super::Simulation;
use crate::cost::{Method, Way};
use crate::sim::driver::{Step, carries_kv};
use crate::sim::world::{Assignment, Phase};

impl Simulation<'_> {
    /// Finds a peer for a request that nobody has.
    pub(super) fn place(&mut self, request: usize) {
        self.swarm.requests[request].advance(self.swarm.now_s);
        if let Some(to) = self.driver.place(&self.swarm, request) {
            self.begin_at(request, to);
            return;
        }
        self.swarm.requests[request].phase = Phase::Pending;
        self.pending.push(request);
    }

    /// Those that found no peer try again, in their order: who takes work has changed.
    pub(super) fn place_pending(&mut self) {
        for request in core::mem::take(&mut self.pending) {
            self.place(request);
        }
    }

    /// It begins, or begins again, there: with what the peer holds of its context, if it prepared it.
    fn begin_at(&mut self, request: usize, to: usize) {
        let live = &self.swarm.requests[request];
        let held = live.standby.filter(|standby| standby.peer == to);
        let left_tokens = match held {
            Some(standby) => self.swarm.lag_at_hand_over(live, &standby),
            None => f64::from(live.context_tokens()),
        };
        let overhead_s = if live.is_again { self.swarm.world.overheads.recompute_s } else { 0.0 };
        self.swarm.assign(request, Assignment { to, left_tokens, overhead_s, source: None, may_prefill: true });
    }

    /// Whether a peer could begin with something now.
    pub(super) fn can_begin(&self, peer: usize) -> bool {
        let peer = &self.swarm.peers[peer];
        peer.takes_work() && peer.has_slot() && peer.queue.is_empty()
    }

    /// The standby goes on with what it has, and prefills the rest.
    pub(super) fn take_over(&mut self, request: usize) {
        let live = &self.swarm.requests[request];
        let Some(standby) = live.standby else { return };
        let left_tokens = self.swarm.lag_at_hand_over(live, &standby);
        let overhead_s = self.swarm.world.overheads.hand_off_s;
        let to = standby.peer;
        self.swarm.assign(request, Assignment { to, left_tokens, overhead_s, source: None, may_prefill: true });
    }

    pub(super) fn carry_out(&mut self, request: usize, step: Step) {
        match step {
            Step::Requeue { to } => self.requeue(request, to),
            Step::Prepare { to, way } if self.swarm.peers[to].takes_work() => self.swarm.prepare(request, to, way),
            Step::Hold => self.swarm.set_paused(request, false),
            Step::Pause => self.swarm.set_paused(request, true),
            Step::Release => self.swarm.drop_standby(request),
            Step::Commit { to, way } if self.can_begin(to) => self.commit(request, to, way, true),
            Step::Stay | Step::Prepare { .. } | Step::Commit { .. } => {}
            Step::Move { to, planned } => {
                let overheads = &self.swarm.world.overheads;
                let (source, overhead_s) = match planned.method {
                    Method::Transfer => (self.swarm.requests[request].phase.active_at(), overheads.transfer_s),
                    Method::Recompute => (None, overheads.recompute_s),
                };
                let left_tokens = f64::from(self.swarm.requests[request].context_tokens());
                let may_prefill = source.is_none();
                self.hand_over(request, Assignment { to, left_tokens, overhead_s, source, may_prefill }, true);
            }
        }
    }

    fn requeue(&mut self, request: usize, to: usize) {
        let Phase::Queued { .. } = self.swarm.requests[request].phase else { return };
        self.swarm.requests[request].outcome.requeues += 1;
        self.swarm.take_away(request, Phase::Pending);
        self.begin_at(request, to);
    }

    /// The source stops, and the destination goes on: with what it prepared, and the rest in this way.
    pub(super) fn commit(&mut self, request: usize, to: usize, way: Way, is_planned: bool) {
        let live = &self.swarm.requests[request];
        let prepared = live.standby.filter(|standby| standby.peer == to);
        let left_tokens = match prepared {
            Some(standby) => self.swarm.lag_at_hand_over(live, &standby),
            None => f64::from(live.context_tokens()),
        };
        let worker = live.phase.active_at();
        let round_trip_s = worker.map_or(0.0, |worker| self.swarm.network.round_trip_s(worker, to));
        let source = worker.filter(|_| carries_kv(way));
        let overhead_s = self.swarm.world.overheads.hand_off_s + round_trip_s;
        self.hand_over(request, Assignment { to, left_tokens, overhead_s, source, may_prefill: true }, is_planned);
    }

    fn hand_over(&mut self, request: usize, assignment: Assignment, is_planned: bool) {
        let Some(worker) = self.swarm.requests[request].phase.active_at() else { return };
        if worker == assignment.to {
            return;
        }
        let now_s = self.swarm.now_s;
        self.swarm.requests[request].outcome.planned += u32::from(is_planned);
        self.swarm.requests[request].stall(now_s, is_planned);
        self.swarm.note(format_args!("request {request} is handed over"));
        self.swarm.take_away(request, Phase::Pending);
        self.swarm.assign(request, assignment);
        self.swarm.admit(worker);
    }
}
