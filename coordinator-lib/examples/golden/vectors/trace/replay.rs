//! The step: churn, arrivals, placements, planned moves, one second of service.

use idlewild_coordinator::cost::{CostParameters, recompute_s};
use idlewild_coordinator::hazard::HazardLog;
use idlewild_coordinator::policy::{Fleet, FleetPeer, MoveDecision, Running};

use super::node::Node;
use super::request::Request;
use super::rule::Rule;
use super::{STEP_S, Trace, Turn};

/// Departures from which a node has a curve of its own.
const MIN_SESSIONS: usize = 5;

/// A running request is asked whether it should move as often as this.
const CHECK_INTERVAL_S: f64 = 5.0;

/// One run of one trace under one rule.
pub(super) struct Replay<'a> {
    trace: &'a Trace,
    rule: &'a Rule,
    now_s: f64,
    nodes: Vec<Node>,
    log: HazardLog<usize>,
    /// Those that have arrived, in order.
    requests: Vec<Request>,
    pending: Vec<usize>,
    /// Of each node, as of this step; placements and moves add to it.
    loads_s: Vec<f64>,
    turns_done: usize,
}

impl<'a> Replay<'a> {
    pub(super) fn of(trace: &'a Trace, rule: &'a Rule) -> Self {
        let nodes: Vec<Node> = trace.nodes.iter().map(|rates| Node::new(rates.rates())).collect();
        let loads_s = vec![0.0; nodes.len()];
        let log = HazardLog::new(MIN_SESSIONS);
        let (requests, pending) = (Vec::new(), Vec::new());
        Self { trace, rule, now_s: 0.0, nodes, log, requests, pending, loads_s, turns_done: 0 }
    }

    /// What became of every request.
    pub(super) fn run(mut self) -> Vec<Request> {
        while self.now_s < self.trace.duration_s {
            self.turn();
            self.arrive();
            self.loads_s = self.nodes.iter().map(|node| node.load_s(&self.requests)).collect();
            self.place_pending();
            if self.rule.is_hazard_aware {
                self.move_running();
            }
            self.serve();
            self.now_s += STEP_S;
        }
        for at in self.pending {
            self.requests[at].is_pending = true;
        }
        self.requests
    }

    fn turn(&mut self) {
        let due = self.trace.churn[self.turns_done..].iter().take_while(|turn| turn.0 <= self.now_s);
        let mut due: Vec<Turn> = due.copied().collect();
        self.turns_done += due.len();
        due.sort_by_key(|turn| turn.1);
        for Turn(_, node, is_up, until_s) in due {
            if is_up == 1 {
                self.log.join(self.now_s, node);
                (self.nodes[node].is_up, self.nodes[node].until_s) = (true, until_s);
            } else {
                self.leave(node);
            }
        }
    }

    fn leave(&mut self, node: usize) {
        self.log.leave(self.now_s, &node);
        (self.nodes[node].is_up, self.nodes[node].until_s) = (false, None);
        let orphans = self.nodes[node].orphans();
        for orphan in &orphans {
            self.requests[*orphan].unplanned_moves += 1;
        }
        self.pending.extend(orphans);
    }

    fn arrive(&mut self) {
        let arrived = self.requests.len();
        let due = self.trace.arrivals[arrived..].iter().take_while(|arrival| arrival.0 <= self.now_s);
        self.requests.extend(due.copied().map(Request::new));
        self.pending.extend(arrived..self.requests.len());
    }

    fn place_pending(&mut self) {
        for request in core::mem::take(&mut self.pending) {
            match self.choose(request) {
                Some(node) => self.assign(request, node),
                None => self.pending.push(request),
            }
        }
    }

    fn choose(&mut self, request: usize) -> Option<usize> {
        let work = self.requests[request].as_new();
        let up = self.nodes.iter().zip(self.loads_s.iter().copied()).filter(|(node, _)| node.is_up);
        if self.rule.asks_to_place(up, &work) {
            self.log.refit(self.now_s);
        }
        self.rule.policy().place(&self.fleet(), &work).chosen
    }

    fn fleet(&self) -> Fleet<'_, usize> {
        let shift_s = self.rule.load_shift_s(&self.loads_s);
        let peer = |(id, node): (usize, &Node)| FleetPeer {
            id,
            rates: node.rates,
            load_s: self.loads_s[id] + shift_s,
            hazard: self.log.node(self.now_s, &id).hazard(),
            known_remaining_s: node.until_s.map(|until_s| until_s - self.now_s + shift_s),
        };
        Fleet::new(self.nodes.iter().enumerate().filter(|(_, node)| node.is_up).map(peer).collect())
    }

    fn assign(&mut self, at: usize, node: usize) {
        let (request, rates) = (&mut self.requests[at], &self.nodes[node].rates);
        let delay_s = if request.was_placed {
            let delay_s = recompute_s(rates, request.context_tokens(), &CostParameters::default());
            request.wasted_s += delay_s;
            delay_s
        } else {
            f64::from(request.prompt_tokens()) / rates.prefill_tps
        };
        request.was_placed = true;
        request.prefill_for(delay_s);
        self.loads_s[node] += delay_s + request.decoding_s(rates.decode_tps);
        self.nodes[node].take_in(at);
    }

    fn move_running(&mut self) {
        for source in 0..self.nodes.len() {
            let Some(at) = self.nodes[source].running.filter(|_| self.nodes[source].is_up) else { continue };
            let is_due = self.requests[at].checked_s.is_none_or(|at_s| self.now_s - at_s >= CHECK_INTERVAL_S);
            if self.requests[at].is_prefilled && is_due {
                self.requests[at].checked_s = Some(self.now_s);
                self.check_move(at, source);
            }
        }
    }

    fn check_move(&mut self, at: usize, source: usize) {
        let request = &self.requests[at];
        let own_load_s = request.decoding_s(self.nodes[source].rates.decode_tps);
        let running = Running { current: source, work: request.as_running(), own_load_s, hops: request.planned_moves };
        if self.rule.is_guarded(&self.nodes[source], &running) {
            return;
        }
        self.log.refit(self.now_s);
        let decision = self.rule.policy().should_migrate(&self.fleet(), &running).decision;
        if let MoveDecision::Move { to, planned } = decision {
            let request = &mut self.requests[at];
            request.planned_moves += 1;
            request.wasted_s += planned.cost_s;
            request.prefill_for(planned.cost_s);
            self.nodes[source].serve_next();
            self.nodes[to].take_in(at);
            self.loads_s[source] = (self.loads_s[source] - own_load_s).max(0.0);
            self.loads_s[to] += own_load_s + planned.cost_s;
        }
    }

    fn serve(&mut self) {
        for node in &mut self.nodes {
            let Some(at) = node.running else { continue };
            let request = &mut self.requests[at];
            if request.serve_second(node.rates.decode_tps) {
                request.latency_s = Some(self.now_s - request.arrived_s);
                node.serve_next();
            }
        }
    }
}
