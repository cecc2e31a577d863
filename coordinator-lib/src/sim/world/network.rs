//! Who sends KV to whom, and how fast: links are shared fairly.
//!
//! Max-min fairness: the rates of all flows rise together until an end is full or a flow has what it can use; those stay, the
//! others go on. What many TCP connections over a few bottlenecks come to, near enough.

use std::collections::BTreeMap;

use crate::sim::fleet::Link;

/// KV on its way to where a request is prepared, or goes on. One a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Flow {
    /// The peer that sends.
    pub(crate) from: usize,
    /// The peer that receives.
    pub(crate) to: usize,
    /// The most that it can use, in bytes a second: as much as comes, of a standby that follows.
    pub(crate) demand_bps: f64,
    /// What it gets.
    pub(crate) rate_bps: f64,
}

/// All flows, by the request that they are of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    links: Vec<Link>,
    flows: BTreeMap<usize, Flow>,
    /// Whether flows have changed since the links were shared.
    is_stale: bool,
}

/// One end of a link: a peer, and whether it sends.
type End = (usize, bool);

impl Network {
    pub(crate) fn new(links: Vec<Link>) -> Self {
        Self { links, flows: BTreeMap::new(), is_stale: false }
    }

    /// Bytes a second from one peer to another while nobody else sends.
    pub(crate) fn goodput_bps(&self, from: usize, to: usize) -> f64 {
        self.links[from].up_bps.min(self.links[to].down_bps)
    }

    /// Seconds from one peer to another and back.
    pub(crate) fn round_trip_s(&self, from: usize, to: usize) -> f64 {
        f64::midpoint(self.links[from].round_trip_s, self.links[to].round_trip_s)
    }

    /// The flow of a request.
    pub(crate) fn flow(&self, request: usize) -> Option<&Flow> {
        self.flows.get(&request)
    }

    /// Those that a peer sends or receives.
    pub(crate) fn flows_of(&self, peer: usize) -> impl Iterator<Item = (usize, &Flow)> {
        self.flows.iter().filter(move |(_, flow)| flow.from == peer || flow.to == peer).map(|(of, flow)| (*of, flow))
    }

    /// Begins a flow, or changes what it can use. Rates are as before until [`Self::share`]. True where anything changed.
    pub(crate) fn ask(&mut self, request: usize, from: usize, to: usize, demand_bps: f64) -> bool {
        let known = self.flows.get(&request).copied();
        let is_same = known.is_some_and(|flow| (flow.from, flow.to, flow.demand_bps) == (from, to, demand_bps));
        if !is_same {
            let rate_bps = known.map_or(0.0, |flow| flow.rate_bps);
            self.flows.insert(request, Flow { from, to, demand_bps, rate_bps });
            self.is_stale = true;
        }
        !is_same
    }

    /// Ends a flow. True where there was one.
    pub(crate) fn end(&mut self, request: usize) -> bool {
        let was_there = self.flows.remove(&request).is_some();
        self.is_stale |= was_there;
        was_there
    }

    /// Shares the links anew. Answers whose rate is another now.
    pub(crate) fn share(&mut self) -> Vec<usize> {
        if !core::mem::take(&mut self.is_stale) {
            return Vec::new();
        }
        let rates = fair_rates(&self.links, &self.flows);
        let mut changed = Vec::new();
        for ((request, flow), rate_bps) in self.flows.iter_mut().zip(rates) {
            if flow.rate_bps != rate_bps {
                flow.rate_bps = rate_bps;
                changed.push(*request);
            }
        }
        changed
    }
}

/// The rates of all flows, in their order.
fn fair_rates(links: &[Link], flows: &BTreeMap<usize, Flow>) -> Vec<f64> {
    let ends = |flow: &Flow| [(flow.from, true), (flow.to, false)];
    let mut free: BTreeMap<End, (f64, u32)> = BTreeMap::new();
    for end in flows.values().flat_map(ends) {
        let (peer, sends) = end;
        let capacity = if sends { links[peer].up_bps } else { links[peer].down_bps };
        free.entry(end).or_insert((capacity, 0)).1 += 1;
    }
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    // Each turn settles one flow at least.
    for _ in 0..flows.len() {
        let open = || flows.values().zip(&rates).filter(|(_, rate)| rate.is_none());
        let level_at = |end: End| free.get(&end).map_or(0.0, |(left_bps, count)| left_bps / f64::from(*count));
        let ask = |flow: &Flow| ends(flow).into_iter().map(level_at).fold(flow.demand_bps, f64::min);
        let Some(level_bps) = open().map(|(flow, _)| ask(flow)).min_by(f64::total_cmp) else { break };
        let settled: Vec<bool> =
            flows.values().zip(&rates).map(|(flow, rate)| rate.is_none() && ask(flow) <= level_bps).collect();
        for ((flow, rate), is_settled) in flows.values().zip(&mut rates).zip(settled) {
            if is_settled {
                *rate = Some(level_bps);
                for end in ends(flow) {
                    if let Some((left_bps, count)) = free.get_mut(&end) {
                        *left_bps = (*left_bps - level_bps).max(0.0);
                        *count = count.saturating_sub(1).max(1);
                    }
                }
            }
        }
    }
    rates.into_iter().map(|rate| rate.unwrap_or(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(links: &[(f64, f64)]) -> Network {
        Network::new(links.iter().map(|&(up_bps, down_bps)| Link { up_bps, down_bps, round_trip_s: 0.01 }).collect())
    }

    fn rates(network: &Network) -> Vec<f64> {
        network.flows.values().map(|flow| flow.rate_bps).collect()
    }

    #[test]
    fn flows_share_the_end_that_is_full_and_the_rest_goes_to_the_others() {
        let mut network = network(&[(10.0, 100.0), (100.0, 12.0), (100.0, 100.0)]);
        network.ask(0, 0, 1, f64::INFINITY);
        assert_eq!(network.share(), [0]);
        assert_eq!(rates(&network), [10.0]);
        network.ask(1, 0, 2, f64::INFINITY);
        network.ask(2, 2, 1, f64::INFINITY);
        network.share();
        // Peer 0 sends two of 5 each; peer 1 takes one of them, and the other 7 are for the third.
        assert_eq!(rates(&network), [5.0, 5.0, 7.0]);
        network.ask(1, 0, 2, 1.0);
        network.share();
        // What the second does not need goes to the first, until peer 1 is full.
        assert_eq!(rates(&network), [6.0, 1.0, 6.0]);
        assert!(network.end(0) && !network.end(0));
        assert_eq!(network.share(), [2], "whoever is as fast as before is not named");
        assert_eq!(rates(&network), [1.0, 12.0]);
    }

    /// For many networks: nobody sends or receives more than it can, and nobody has less than it could without an equal or
    /// slower one having to give way.
    #[test]
    fn no_end_carries_more_than_it_can_and_no_flow_could_have_more() {
        let mut draws = crate::sim::random::Draws::new(11, crate::sim::random::Purpose::Peers, 0);
        for _ in 0..200 {
            let links: Vec<(f64, f64)> = (0..5).map(|_| (draws.between(1.0, 9.0), draws.between(1.0, 9.0))).collect();
            let mut network = network(&links);
            for request in 0..8 {
                let from = draws.between(0.0, 5.0) as usize;
                let to = (from + 1 + draws.between(0.0, 4.0) as usize) % 5;
                let demand_bps = if draws.happens(0.3) { draws.between(0.1, 3.0) } else { f64::INFINITY };
                network.ask(request, from, to, demand_bps);
            }
            network.share();
            let through = |end: End| -> f64 {
                let is_at = |flow: &&Flow| if end.1 { flow.from == end.0 } else { flow.to == end.0 };
                network.flows.values().filter(is_at).map(|flow| flow.rate_bps).sum()
            };
            let capacity = |(peer, sends): End| if sends { links[peer].0 } else { links[peer].1 };
            for flow in network.flows.values() {
                let is_content = flow.rate_bps >= flow.demand_bps - 1e-9;
                let is_bound = [(flow.from, true), (flow.to, false)].into_iter().any(|end| {
                    assert!(through(end) <= capacity(end) + 1e-9, "{end:?} carries more than it can");
                    let is_full = through(end) >= capacity(end) - 1e-9;
                    let is_at = |other: &&Flow| if end.1 { other.from == end.0 } else { other.to == end.0 };
                    is_full && network.flows.values().filter(is_at).all(|other| other.rate_bps <= flow.rate_bps + 1e-9)
                });
                assert!(is_content || is_bound, "{flow:?} could have more");
            }
        }
    }
}
