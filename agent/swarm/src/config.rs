//! What a swarm is started with.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use idlewild_protocol::{BootId, CertificateChain, PeerId, Refusal, TicketId, TicketSecret};

use crate::{Identity, InterfaceFilter, Membership, RelayMode};

/// Trades tickets for certificates. The agent implements it on its database.
///
/// It may block (it runs on a thread of its own). A ticket is good for one peer: a second attempt by the *same*
/// newcomer should be answered again, since the first answer may have been lost with its connection.
pub trait TicketDesk: Send + Sync {
    /// The newcomer's new certificate. `proves` tells whether the newcomer has shown that it knows a secret.
    fn redeem(
        &self,
        ticket: TicketId,
        newcomer: PeerId,
        proves: &dyn Fn(&TicketSecret) -> bool,
    ) -> Result<CertificateChain, Refusal>;
}

/// What a swarm is started with.
pub struct SwarmConfig {
    /// This peer's key.
    pub identity: Identity,
    /// Its swarm and certificate.
    pub membership: Membership,
    /// This life of the process.
    pub boot: BootId,
    /// Number of the UDP port (QUIC) and the TCP port alike; 0 is any that is free in both.
    pub port: u16,
    /// Where to listen. An unspecified address (`0.0.0.0`, `::`) is every interface that `interfaces` lets pass.
    /// Loopback alone is for clusters on one machine: then, and only then, loopback is dialled too.
    pub listen: Vec<IpAddr>,
    /// Whether to look for peers by multicast DNS.
    pub mdns: bool,
    /// Peers to dial whatever discovery says: a multiaddress (`/ip4/10.0.0.2/udp/14354/quic-v1`, with or without
    /// `/p2p/..`) or `host:port`. Each is tried over QUIC and TCP at the same port number.
    pub static_peers: Vec<String>,
    /// Where addresses of members are remembered; none remembers nothing.
    pub address_book: Option<PathBuf>,
    /// Which interfaces count.
    pub interfaces: InterfaceFilter,
    /// Whether to relay for members that do not reach each other.
    pub relay: RelayMode,
    /// Who answers newcomers with a ticket; none refuses them.
    pub desk: Option<Arc<dyn TicketDesk>>,
}
