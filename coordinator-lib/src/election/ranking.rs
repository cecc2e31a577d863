//! The live view as the election sees it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use idlewild_protocol::PeerId;

/// A live peer and how long its session is expected to last still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The peer.
    pub peer: PeerId,
    /// Seconds; 0 for a peer outside a session or of whom no digest is known. Such a peer may lead where none is better.
    pub remaining_s: f64,
}

/// What candidates are ordered by, better first: the longer expected remaining session, then the smaller id.
type Rank = (Reverse<u64>, PeerId);

/// Live peers, ourselves included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct LiveView {
    /// Expected remaining session in milliseconds.
    peers: BTreeMap<PeerId, u64>,
}

impl LiveView {
    /// Of these peers and, whatever the list says, ourselves.
    pub(super) fn new(me: PeerId, live: &[Candidate]) -> Self {
        let mut peers: BTreeMap<PeerId, u64> = live.iter().map(|c| (c.peer, (c.remaining_s * 1000.0) as u64)).collect();
        peers.entry(me).or_insert(0);
        Self { peers }
    }

    pub(super) fn contains(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Votes that elect.
    pub(super) fn majority(&self) -> usize {
        self.peers.len() / 2 + 1
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Nobody but ourselves.
    pub(super) fn is_solitary(&self) -> bool {
        self.peers.len() <= 1
    }

    pub(super) fn others(&self, me: PeerId) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.keys().copied().filter(move |peer| *peer != me)
    }

    /// Live peers that rank better than `peer`, without `suspect` (a leader that fell silent).
    pub(super) fn rank(&self, peer: PeerId, suspect: Option<PeerId>) -> usize {
        let own = (Reverse(self.peers.get(&peer).copied().unwrap_or(0)), peer);
        self.ranks().filter(|rank| Some(rank.1) != suspect && *rank < own).count()
    }

    /// The best besides `peer`.
    pub(super) fn best_besides(&self, peer: PeerId) -> Option<PeerId> {
        self.ranks().filter(|rank| rank.1 != peer).min().map(|rank| rank.1)
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.peers.iter().map(|(peer, remaining_ms)| (Reverse(*remaining_ms), *peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u8) -> PeerId {
        PeerId([n; 32])
    }

    fn view(live: &[(u8, f64)]) -> LiveView {
        let live: Vec<Candidate> =
            live.iter().map(|(n, remaining_s)| Candidate { peer: peer(*n), remaining_s: *remaining_s }).collect();
        LiveView::new(peer(1), &live)
    }

    #[test]
    fn the_longer_session_ranks_first_then_the_smaller_id() {
        let view = view(&[(1, 60.0), (2, 600.0), (3, 60.0)]);
        assert_eq!([1, 2, 3].map(|n| view.rank(peer(n), None)), [1, 0, 2]);
        assert_eq!(view.best_besides(peer(2)), Some(peer(1)));
    }

    #[test]
    fn a_suspect_leader_holds_nobody_back() {
        let view = view(&[(1, 60.0), (2, 600.0)]);
        assert_eq!(view.rank(peer(1), Some(peer(2))), 0);
    }

    #[test]
    fn we_are_in_our_own_live_view_even_where_the_shell_forgot_us() {
        let view = view(&[(2, 600.0)]);
        assert!(view.contains(peer(1)));
        assert_eq!(view.majority(), 2);
    }
}
