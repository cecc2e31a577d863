//! The peers that could serve, as one decision finds them.

use crate::cost::{PeerRates, is_rate};
use crate::hazard::Hazard;

/// One peer that could serve.
#[derive(Debug, Clone, Copy)]
pub struct FleetPeer<'a, K> {
    /// The caller's name for it.
    pub id: K,
    /// Its measured rates.
    pub rates: PeerRates,
    /// Seconds of work on it, whosever it is.
    pub load_s: f64,
    /// Its chance to stay.
    pub hazard: Hazard<'a>,
    /// When it will leave, in seconds from now. Only a simulator knows, only an oracle asks.
    pub known_remaining_s: Option<f64>,
}

/// Peers in the caller's order. The fallback of each is sought among the others, fit for the work or not.
#[derive(Debug, Clone)]
pub struct Fleet<'a, K> {
    /// The peers.
    pub peers: Vec<FleetPeer<'a, K>>,
    /// Links that were measured: (from, to, bytes a second). Any other is taken for the slower of its two ends.
    pub links_bps: Vec<(K, K, f64)>,
    /// Differs from one decision to the next. Only [`super::Random`] reads it.
    pub draw: u64,
}

impl<'a, K: Copy + PartialEq> Fleet<'a, K> {
    /// A fleet of `peers` of whose links nothing was measured.
    pub fn new(peers: Vec<FleetPeer<'a, K>>) -> Self {
        Self { peers, links_bps: Vec::new(), draw: 0 }
    }

    /// The peer called `id`.
    pub fn peer(&self, id: K) -> Option<&FleetPeer<'a, K>> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    /// The peer that would rebuild the context if `id` left: the fastest at prefill among the others. Whether it has
    /// room, is busy or likely to leave does not count. None where the others have no measured rate.
    pub fn fallback(&self, id: K) -> Option<&FleetPeer<'a, K>> {
        let others = self.peers.iter().filter(|peer| peer.id != id && is_rate(peer.rates.prefill_tps));
        others.reduce(|best, peer| if peer.rates.prefill_tps > best.rates.prefill_tps { peer } else { best })
    }

    /// Bytes a second from one peer to another.
    pub fn link_bps(&self, from: &FleetPeer<'_, K>, to: &FleetPeer<'_, K>) -> f64 {
        let measured = self.links_bps.iter().find(|(source, target, _)| *source == from.id && *target == to.id);
        measured.map_or_else(|| from.rates.bandwidth_bps.min(to.rates.bandwidth_bps), |&(_, _, bps)| bps)
    }
}
