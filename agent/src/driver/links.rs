//! What the links to others can carry: from real transfers as the swarm measures them, from the store after a restart,
//! and from one small probe at a time where a pair has no recent figure.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_protocol::{MAX_PAIRS_PER_DIGEST, PairRate, PeerId};
use idlewild_swarm::{PeerLink, Probe, ProbeError};

use crate::store::{LinkRecord, unix_s};

/// A figure older than this is measured again.
const FRESH: Duration = Duration::from_mins(30);

/// A connection younger than this is not probed: its second connection may still be coming.
const SETTLED: Duration = Duration::from_secs(5);

/// After a probe that failed.
const RETRY: Duration = Duration::from_mins(5);

/// After a day's bytes were used up.
const RETRY_BUDGET: Duration = Duration::from_hours(1);

/// The conversation. Bounded by the peers that are connected and those on record.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// When a peer may be probed again.
    not_before: BTreeMap<PeerId, Duration>,
    /// Figures of the last run, until there are new ones.
    recorded: BTreeMap<PeerId, LinkRecord>,
    running: Option<PeerId>,
}

/// What is believed of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) peer: PeerId,
    pub(super) bytes_per_s: Option<u64>,
    pub(super) rtt_us: u32,
}

impl Links {
    pub(super) fn new(recorded: Vec<LinkRecord>) -> Self {
        let recorded = recorded.into_iter().map(|link| (link.peer, link)).collect();
        Self { recorded, ..Self::default() }
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
        if self.running.is_some() {
            return None;
        }
        let turn = |peer: PeerId| self.not_before.get(&peer).copied().unwrap_or(Duration::ZERO);
        let ready = links.iter().filter(|link| link.has_bulk && link.connected_for >= SETTLED);
        let chosen = ready.map(|link| link.peer).filter(|peer| turn(*peer) <= now).min_by_key(|peer| turn(*peer))?;
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
            connected_for: Duration::from_mins(1),
            has_bulk: true,
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
        assert_eq!(links.next_probe(S + FRESH, &both), Some(first));
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
