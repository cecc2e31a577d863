//! The behaviours that libp2p drives for us.

use core::time::Duration;

use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{mdns, relay};

use crate::streams::Streams;

/// Peers that may be connected at once. Above about 200, gossip needs another form.
pub(crate) const MAX_PEERS: u32 = 256;

/// Connections a peer: QUIC, TCP and a circuit, each perhaps dialled from both ends until the spare one closes; and two of
/// a copy of its data directory, which must come as far as to hear what it is.
const MAX_PER_PEER: u32 = 8;

/// Handshakes at once that others began. Each holds some tens of kilobytes.
const MAX_PENDING_INCOMING: u32 = 64;

/// Handshakes at once that we began.
const MAX_PENDING_OUTGOING: u32 = 64;

/// How long an mDNS answer counts.
const MDNS_TTL: Duration = Duration::from_mins(1);

/// How often peers are asked for. An answer resets it.
const MDNS_QUERY: Duration = Duration::from_secs(10);

/// All behaviours.
#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    /// First, so that what exceeds a limit costs nothing else.
    limits: connection_limits::Behaviour,
    pub(crate) streams: Streams,
    mdns: Toggle<mdns::tokio::Behaviour>,
    /// Relays for members, where it may.
    pub(crate) relay: Toggle<relay::Behaviour>,
    /// Has others relay for this peer.
    circuits: Toggle<relay::client::Behaviour>,
}

impl Behaviour {
    pub(crate) fn new(streams: Streams, mdns: Option<mdns::tokio::Behaviour>) -> Self {
        let limits = ConnectionLimits::default()
            .with_max_established_per_peer(Some(MAX_PER_PEER))
            .with_max_established(Some(2 * MAX_PEERS + MAX_PENDING_INCOMING))
            .with_max_pending_incoming(Some(MAX_PENDING_INCOMING))
            .with_max_pending_outgoing(Some(MAX_PENDING_OUTGOING));
        let limits = connection_limits::Behaviour::new(limits);
        Self { limits, streams, mdns: mdns.into(), relay: None.into(), circuits: None.into() }
    }

    /// The same with relays, at both ends.
    pub(crate) fn relaying(self, relay: relay::Behaviour, circuits: relay::client::Behaviour) -> Self {
        Self { relay: Some(relay).into(), circuits: Some(circuits).into(), ..self }
    }
}

/// Discovery by multicast: a hint where peers may be, never a sign that they are there.
pub(crate) fn mdns(me: libp2p::PeerId) -> std::io::Result<mdns::tokio::Behaviour> {
    let config = mdns::Config { ttl: MDNS_TTL, query_interval: MDNS_QUERY, enable_ipv6: false };
    mdns::tokio::Behaviour::new(config, me)
}
