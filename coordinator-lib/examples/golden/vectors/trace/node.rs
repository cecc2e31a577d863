//! One node of a trace.

use std::collections::VecDeque;

use idlewild_coordinator::cost::PeerRates;

use super::request::Request;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) rates: PeerRates,
    pub(super) is_up: bool,
    /// True end of the session; only an oracle asks.
    pub(super) until_s: Option<f64>,
    /// The request that is served, by its number.
    pub(super) running: Option<usize>,
    /// Those that wait for it.
    pub(super) queue: VecDeque<usize>,
}

impl Node {
    pub(super) fn new(rates: PeerRates) -> Self {
        Self { rates, is_up: false, until_s: None, running: None, queue: VecDeque::new() }
    }

    pub(super) fn take_in(&mut self, request: usize) {
        self.queue.push_back(request);
        if self.running.is_none() {
            self.serve_next();
        }
    }

    /// The one that is served is no longer here.
    pub(super) fn serve_next(&mut self) {
        self.running = self.queue.pop_front();
    }

    /// What it leaves behind when it goes: the one that was served first.
    pub(super) fn orphans(&mut self) -> Vec<usize> {
        self.running.take().into_iter().chain(self.queue.drain(..)).collect()
    }

    /// Work on it; below 0 where its requests are past their estimates.
    pub(super) fn load_s(&self, requests: &[Request]) -> f64 {
        self.running.iter().chain(&self.queue).map(|at| requests[*at].load_s(self.rates.decode_tps)).sum()
    }
}
