//! What the links to others can carry: from real transfers as the swarm measures them, from the store after a restart,
//! and from one small probe at a time where a pair has no recent figure.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_protocol::{MAX_PAIRS_PER_DIGEST, PairRate, PeerId};
use idlewild_swarm::{PeerLink, Probe, ProbeError};

use crate::store::{LinkRecord, unix_s};

/// A figure older than this is measured again. Homes rewire seldom, and what is really transferred counts too.
const FRESH: Duration = Duration::from_hours(6);

/// So many fresh figures say what our own end carries. Any other pair is taken for the slower of its two ends until its
/// turn comes: a swarm of twenty must not send a hundred megabytes a peer when it wakes up.
const ENOUGH: usize = 4;

/// Between two probes where there are [`ENOUGH`] figures.
const UNHURRIED: Duration = Duration::from_mins(20);

/// A connection younger than this is not probed: its second connection may still be coming.
const SETTLED: Duration = Duration::from_secs(5);

/// After a probe that failed.
const RETRY: Duration = Duration::from_mins(5);

/// After a day's bytes were used up.
const RETRY_BUDGET: Duration = Duration::from_hours(1);

/// When whom was measured. Bounded by the peers that are connected and those on record.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// When a peer may be probed again.
    not_before: BTreeMap<PeerId, Duration>,
    /// Figures of the last run, until there are new ones.
    recorded: BTreeMap<PeerId, LinkRecord>,
    running: Option<PeerId>,
    /// When the last probe ended.
    last: Option<Duration>,
}

/// What is believed of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) peer: PeerId,
    pub(super) bytes_per_s: Option<u64>,
    pub(super) rtt_us: u32,
}

impl Links {
    /// Knows what the last run measured, as far as that is fresh; the agent's time begins at 0.
    pub(super) fn new(recorded: Vec<LinkRecord>) -> Self {
        let today_s = unix_s();
        let rest = |link: &LinkRecord| FRESH.saturating_sub(Duration::from_secs(today_s.abs_diff(link.measured_s)));
        let not_before = recorded.iter().map(|link| (link.peer, rest(link))).collect();
        let recorded = recorded.into_iter().map(|link| (link.peer, link)).collect();
        Self { not_before, recorded, ..Self::default() }
    }

    /// The figures of connected peers. Goodput is towards the peer where measured: KV goes that way.
    pub(super) fn figures(&self, links: &[PeerLink]) -> Vec<Figure> {
        let figure = |link: &PeerLink| Figure {
            peer: link.peer,
            bytes_per_s: self.up(link).or(link.down_bytes_per_s),
            rtt_us: link.rtt_us,
        };
        links.iter().map(figure).collect()
    }

    fn up(&self, link: &PeerLink) -> Option<u64> {
        link.up_bytes_per_s.or_else(|| self.recorded.get(&link.peer)?.up_bytes_per_s)
    }

    /// For the digest: the fastest pairs, and the best rate in either direction.
    pub(super) fn stated(&self, links: &[PeerLink]) -> (Vec<PairRate>, u64, u64) {
        let rated = self.figures(links).into_iter().filter_map(|figure| {
            Some(PairRate { peer: figure.peer, bytes_per_s: figure.bytes_per_s?, rtt_us: figure.rtt_us })
        });
        let mut pairs: Vec<PairRate> = rated.collect();
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.bytes_per_s), pair.peer));
        pairs.truncate(MAX_PAIRS_PER_DIGEST);
        let up = links.iter().filter_map(|link| self.up(link)).max();
        let down = links.iter().filter_map(|link| link.down_bytes_per_s).max();
        (pairs, up.unwrap_or(0), down.unwrap_or(0))
    }

    /// Whom to probe now: of those that may be, the one whose turn it has been for longest.
    pub(super) fn next_probe(&mut self, now: Duration, links: &[PeerLink]) -> Option<PeerId> {
        let is_fresh = |link: &&PeerLink| link.measured_for.is_some_and(|age| age < FRESH);
        let may_wait = links.iter().filter(is_fresh).count() >= ENOUGH;
        if self.running.is_some() || (may_wait && self.last.is_some_and(|last| now < last + UNHURRIED)) {
            return None;
        }
        let turn = |peer: PeerId| self.not_before.get(&peer).copied().unwrap_or(Duration::ZERO);
        let ready = links.iter().filter(|link| link.has_bulk && link.connected_for >= SETTLED);
        let stale = ready.filter(|link| !is_fresh(link));
        let chosen = stale.map(|link| link.peer).filter(|peer| turn(*peer) <= now).min_by_key(|peer| turn(*peer))?;
        self.running = Some(chosen);
        Some(chosen)
    }

    /// Takes a probe's outcome; gives what to record.
    pub(super) fn probed(
        &mut self,
        now: Duration,
        peer: PeerId,
        outcome: Result<Probe, ProbeError>,
        rtt_us: u32,
    ) -> Option<LinkRecord> {
        self.running = None;
        self.last = Some(now);
        let (pause, record) = match outcome {
            Ok(probe) => {
                let record = LinkRecord {
                    peer,
                    up_bytes_per_s: Some(probe.up_bytes_per_s),
                    down_bytes_per_s: Some(probe.down_bytes_per_s),
                    rtt_us,
                    measured_s: unix_s(),
                };
                (FRESH, Some(record))
            }
            Err(ProbeError::BudgetSpent) => (RETRY_BUDGET, None),
            Err(ProbeError::NoBulk | ProbeError::Running | ProbeError::Open(_) | ProbeError::Unfinished) => {
                (RETRY, None)
            }
        };
        self.not_before.insert(peer, now + pause);
        self.recorded.extend(record.map(|record| (peer, record)));
        record
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::{BootId, Role};

    use super::*;

    fn link(peer: u8, up: Option<u64>) -> PeerLink {
        PeerLink {
            peer: PeerId([peer; 32]),
            role: Role::Member,
            boot: BootId(1),
            address: String::new(),
            rtt_us: 100,
            up_bytes_per_s: up,
            down_bytes_per_s: None,
            measured_for: None,
            connected_for: Duration::from_mins(1),
            has_bulk: true,
            is_relayed: false,
        }
    }

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn each_peer_is_probed_once_in_its_time_and_one_at_a_time() {
        let mut links = Links::default();
        let both = [link(1, None), link(2, None)];
        let first = links.next_probe(S, &both).unwrap();
        assert_eq!(links.next_probe(S, &both), None);
        let probe = Probe { up_bytes_per_s: 5, down_bytes_per_s: 6 };
        assert_eq!(links.probed(S, first, Ok(probe), 9).and_then(|record| record.up_bytes_per_s), Some(5));
        let second = links.next_probe(S, &both).unwrap();
        assert_ne!(first, second);
        assert_eq!(links.probed(S, second, Err(ProbeError::Unfinished), 9), None);
        assert_eq!(links.next_probe(S * 2, &both), None);
        assert_eq!(links.next_probe(S + RETRY, &both), Some(second));
        links.probed(S + RETRY, second, Err(ProbeError::BudgetSpent), 9);
        assert_eq!(links.next_probe(S + RETRY_BUDGET, &both), None);
        assert_eq!(links.next_probe(S + RETRY + RETRY_BUDGET, &both), Some(second));
    }

    #[test]
    fn what_was_measured_lately_by_either_side_is_not_probed() {
        let mut links = Links::default();
        let measured = |age| PeerLink { measured_for: Some(age), ..link(1, Some(5)) };
        assert_eq!(links.next_probe(S, &[measured(FRESH / 2)]), None);
        assert_eq!(links.next_probe(S, &[measured(FRESH)]), Some(PeerId([1; 32])));
    }

    #[test]
    fn a_large_swarm_is_measured_without_hurry() {
        let mut links = Links::default();
        let known = (1..=4).map(|n| PeerLink { measured_for: Some(S), ..link(n, Some(5)) });
        let all: Vec<PeerLink> = known.chain([link(5, None), link(6, None)]).collect();
        let first = links.next_probe(S, &all).unwrap();
        links.probed(S, first, Err(ProbeError::Unfinished), 9);
        assert_eq!(links.next_probe(S * 2, &all), None);
        assert_ne!(links.next_probe(S + UNHURRIED, &all), None);
    }

    #[test]
    fn a_restart_measures_nothing_that_was_measured_an_hour_ago() {
        let measured_s = unix_s() - 3600;
        let record = LinkRecord {
            peer: PeerId([1; 32]),
            up_bytes_per_s: Some(7),
            down_bytes_per_s: None,
            rtt_us: 1,
            measured_s,
        };
        let mut links = Links::new(vec![record]);
        assert_eq!(links.next_probe(S, &[link(1, None)]), None);
        assert_ne!(links.next_probe(FRESH, &[link(1, None)]), None);
    }

    #[test]
    fn new_connections_and_those_without_bulk_are_left_alone() {
        let mut links = Links::default();
        let young = PeerLink { connected_for: S, ..link(1, None) };
        let control_only = PeerLink { has_bulk: false, ..link(2, None) };
        assert_eq!(links.next_probe(S, &[young, control_only]), None);
    }

    #[test]
    fn the_fastest_pairs_are_stated_and_old_records_fill_gaps() {
        let recorded = LinkRecord {
            peer: PeerId([9; 32]),
            up_bytes_per_s: Some(1000),
            down_bytes_per_s: None,
            rtt_us: 1,
            measured_s: 1,
        };
        let links = Links::new(vec![recorded]);
        let connected: Vec<PeerLink> = (1..=9).map(|n| link(n, (n < 8).then_some(u64::from(n)))).collect();
        let (pairs, up, down) = links.stated(&connected);
        let order: Vec<u64> = pairs.iter().map(|pair| pair.bytes_per_s).collect();
        assert_eq!(order, [1000, 7, 6, 5, 4, 3]);
        assert_eq!((up, down), (1000, 0));
    }
}
