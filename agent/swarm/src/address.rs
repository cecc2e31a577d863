//! Addresses: libp2p's multiaddresses on one side, an IP address with one port number for both transports on the other.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use idlewild_protocol::PeerId;
use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use serde::{Deserialize, Serialize};

use crate::identity::{from_libp2p, to_libp2p};

/// How a connection travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Carrier {
    /// Control and jobs.
    Quic,
    /// Bulk, and everything where UDP does not pass.
    Tcp,
    /// Through another member: everything but bulk, where no other way is known.
    Circuit,
}

impl Carrier {
    /// Without anybody between.
    pub(crate) const DIRECT: [Self; 2] = [Self::Quic, Self::Tcp];

    pub(crate) const ALL: [Self; 3] = [Self::Quic, Self::Tcp, Self::Circuit];
}

/// Where a peer listens: QUIC and TCP have the same port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Place(pub(crate) SocketAddr);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Place {
    pub(crate) fn quic(self) -> Multiaddr {
        Multiaddr::from(self.0.ip()).with(Protocol::Udp(self.0.port())).with(Protocol::QuicV1)
    }

    pub(crate) fn tcp(self) -> Multiaddr {
        Multiaddr::from(self.0.ip()).with(Protocol::Tcp(self.0.port()))
    }

    /// Both multiaddresses.
    pub(crate) fn addresses(self) -> [Multiaddr; 2] {
        [self.quic(), self.tcp()]
    }

    /// The place and the carrier of a multiaddress; none for other transports, for names, and for circuits.
    pub(crate) fn of(address: &Multiaddr) -> Option<(Self, Carrier)> {
        if is_circuit(address) {
            return None;
        }
        let mut parts = address.iter();
        let ip = ip_of(&parts.next()?)?;
        let transport = (parts.next()?, parts.next());
        if let (Protocol::Tcp(port), None | Some(Protocol::P2p(_))) = transport {
            Some((Self(SocketAddr::new(ip, port)), Carrier::Tcp))
        } else if let (Protocol::Udp(port), Some(Protocol::QuicV1)) = transport {
            Some((Self(SocketAddr::new(ip, port)), Carrier::Quic))
        } else {
            None
        }
    }
}

fn ip_of(part: &Protocol<'_>) -> Option<IpAddr> {
    if let Protocol::Ip4(ip) = part {
        Some(IpAddr::V4(*ip))
    } else if let Protocol::Ip6(ip) = part {
        Some(IpAddr::V6(*ip))
    } else {
        None
    }
}

/// Whether the address leads through a relay.
pub(crate) fn is_circuit(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

/// The address of whoever `relay` relays to, where `relay` itself is at `address`.
pub(crate) fn circuit(address: Multiaddr, relay: libp2p::PeerId) -> Multiaddr {
    address.with(Protocol::P2p(relay)).with(Protocol::P2pCircuit)
}

/// The peer at the end of a multiaddress, where it names one.
pub(crate) fn peer_of(address: &Multiaddr) -> Option<PeerId> {
    let Protocol::P2p(peer) = address.iter().last()? else { return None };
    from_libp2p(peer)
}

/// The address with the peer's id at its end, as text.
pub(crate) fn with_peer(address: Multiaddr, peer: PeerId) -> String {
    match to_libp2p(peer) {
        Some(peer) if !matches!(address.iter().last(), Some(Protocol::P2p(_))) => {
            address.with(Protocol::P2p(peer)).to_string()
        }
        Some(_) | None => address.to_string(),
    }
}

/// Whether `text` is a peer's address: `host:port`, `[v6]:port`, or a multiaddress with a host and a port.
pub fn is_peer_address(text: &str) -> bool {
    Written::parse(text).is_some()
}

/// A peer's address as a user writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// A name, or an IP address as text.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) peer: Option<PeerId>,
}

impl Written {
    /// Reads `host:port`, `[v6]:port` or a multiaddress.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('/') {
            return Self::of_multiaddr(&text.parse().ok()?);
        }
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Some(Self { host: socket.ip().to_string(), port: socket.port(), peer: None });
        }
        let (host, port) = text.rsplit_once(':')?;
        let named = !host.is_empty() && !host.contains([':', '/', ' ']);
        named.then_some(())?;
        Some(Self { host: host.to_owned(), port: port.parse().ok()?, peer: None })
    }

    fn of_multiaddr(address: &Multiaddr) -> Option<Self> {
        let mut parts = address.iter();
        let first = parts.next()?;
        let host = if let Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name) = &first {
            name.to_string()
        } else {
            ip_of(&first)?.to_string()
        };
        let (Protocol::Tcp(port) | Protocol::Udp(port)) = parts.next()? else { return None };
        Some(Self { host, port, peer: peer_of(address) })
    }

    /// The place, where the host is an IP address and need not be looked up.
    pub(crate) fn place(&self) -> Option<Place> {
        Some(Place(SocketAddr::new(self.host.parse().ok()?, self.port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "12D3KooWGatU6DasL1LbKmBrNaQG8dVXVc5JmzFvK1rTgYjy5gJG";

    #[test]
    fn a_place_has_an_address_for_each_carrier_and_back() {
        for text in ["10.0.0.2:14354", "[fd00::2]:1"] {
            let place = Place(text.parse().unwrap());
            assert_eq!(Place::of(&place.quic()), Some((place, Carrier::Quic)), "{text}");
            assert_eq!(Place::of(&place.tcp()), Some((place, Carrier::Tcp)), "{text}");
        }
        assert_eq!(Place::of(&"/ip4/1.2.3.4/udp/5".parse().unwrap()), None);
        assert_eq!(Place::of(&"/dns4/a/tcp/5".parse().unwrap()), None);
        assert_eq!(Place::of(&"/ip4/1.2.3.4/tcp/5/ws".parse().unwrap()), None);
    }

    #[test]
    fn a_circuit_has_no_place() {
        let relay = to_libp2p(crate::Identity::from_seed([1; 32]).peer_id()).unwrap();
        let place = Place("10.0.0.2:14354".parse().unwrap());
        for address in place.addresses() {
            assert!(!is_circuit(&address));
            let through = circuit(address, relay);
            assert_eq!((is_circuit(&through), Place::of(&through)), (true, None));
        }
    }

    #[test]
    fn users_may_write_addresses_in_several_ways() {
        let ip = |host: &str, port, peer: Option<&str>| {
            Some(Written { host: host.to_owned(), port, peer: peer.map(|p| p.parse().unwrap()) })
        };
        let id = crate::Identity::from_seed([1; 32]).peer_id().to_string();
        for (text, expect) in [
            ("10.0.0.2:14354".to_owned(), ip("10.0.0.2", 14354, None)),
            ("[fd00::2]:7".to_owned(), ip("fd00::2", 7, None)),
            ("desk.local:14354".to_owned(), ip("desk.local", 14354, None)),
            ("/ip4/10.0.0.2/udp/5/quic-v1".to_owned(), ip("10.0.0.2", 5, None)),
            (format!("/ip4/10.0.0.2/tcp/5/p2p/{id}"), ip("10.0.0.2", 5, Some(&id))),
            ("/dns4/desk/tcp/5".to_owned(), ip("desk", 5, None)),
            ("10.0.0.2".to_owned(), None),
            ("fd00::2:7:x".to_owned(), None),
            ("host:99999".to_owned(), None),
            (":5".to_owned(), None),
            ("/unix/x".to_owned(), None),
            (format!("/p2p/{PEER}"), None),
        ] {
            assert_eq!(is_peer_address(&text), expect.is_some(), "{text}");
            assert_eq!(Written::parse(&text), expect, "{text}");
        }
    }
}
