//! Where to listen: one port number for UDP and TCP, checked before libp2p takes it.
//!
//! libp2p shares its TCP port with other processes of the same user (`SO_REUSEPORT`), so that two agents on one port
//! would each get some of the other's connections. A plain bind tells whether the port is free; it is given back at
//! once.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use libp2p::Multiaddr;

use crate::StartError;
use crate::address::Place;

/// Attempts to find a number that is free in both transports.
const MAX_ATTEMPTS: usize = 32;

/// The addresses to listen on, all of the same port number.
pub(crate) fn addresses(ips: &[IpAddr], port: u16) -> Result<Vec<Multiaddr>, StartError> {
    let ips = usable(ips)?;
    let port = if port == 0 { free_port(&ips)? } else { port };
    for ip in &ips {
        check(*ip, port)?;
    }
    Ok(ips.into_iter().flat_map(|ip| Place(SocketAddr::new(ip, port)).addresses()).collect())
}

/// Whether QUIC can be dialled from the listening port: libp2p picks any of several sockets of one family, and one that
/// is bound to an address of another network would not do.
pub(crate) fn one_of_each_family(ips: &[IpAddr]) -> bool {
    ips.iter().filter(|ip| ip.is_ipv4()).count() <= 1 && ips.iter().filter(|ip| ip.is_ipv6()).count() <= 1
}

/// `::` is asked for by default, and left out where the system has no IPv6.
fn usable(ips: &[IpAddr]) -> Result<Vec<IpAddr>, StartError> {
    let has_v6 = UdpSocket::bind((IpAddr::from([0; 16]), 0)).is_ok();
    let usable: Vec<_> = ips.iter().copied().filter(|ip| ip.is_ipv4() || !ip.is_unspecified() || has_v6).collect();
    if usable.is_empty() { Err(StartError::NothingToListenOn) } else { Ok(usable) }
}

fn free_port(ips: &[IpAddr]) -> Result<u16, StartError> {
    let first = *ips.first().ok_or(StartError::NothingToListenOn)?;
    for _ in 0..MAX_ATTEMPTS {
        let listener = TcpListener::bind((first, 0)).map_err(|error| failed(first, 0, "TCP", error))?;
        let port = listener.local_addr().map_err(|error| failed(first, 0, "TCP", error))?.port();
        drop(listener);
        if ips.iter().all(|ip| check(*ip, port).is_ok()) {
            return Ok(port);
        }
    }
    Err(StartError::NoFreePort)
}

fn check(ip: IpAddr, port: u16) -> Result<(), StartError> {
    TcpListener::bind((ip, port)).map_err(|error| failed(ip, port, "TCP", error))?;
    UdpSocket::bind((ip, port)).map_err(|error| failed(ip, port, "UDP", error))?;
    Ok(())
}

/// Why listening on a place failed.
pub(crate) fn failed(ip: IpAddr, port: u16, transport: &'static str, source: io::Error) -> StartError {
    if source.kind() == io::ErrorKind::AddrInUse {
        StartError::PortInUse { port, transport, ip }
    } else {
        StartError::Listen { port, transport, ip, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that no other program listens on.
    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 91, 7, 1));

    #[test]
    fn a_taken_port_is_named_whichever_transport_has_it() {
        let tcp = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let udp = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        for (taken, expect) in [(tcp.local_addr().unwrap().port(), "TCP"), (udp.local_addr().unwrap().port(), "UDP")] {
            let error = addresses(&[LOOPBACK], taken).unwrap_err();
            let StartError::PortInUse { port, transport, ip } = error else { panic!("{error}") };
            assert_eq!((port, transport, ip), (taken, expect, LOOPBACK));
            assert!(error.to_string().contains("swarm.port"), "{error}");
        }
    }

    #[test]
    fn any_port_is_one_number_for_both_transports() {
        let addresses = addresses(&[LOOPBACK], 0).unwrap();
        let places: Vec<_> = addresses.iter().filter_map(Place::of).collect();
        assert_eq!(places.len(), 2);
        assert_eq!(places[0].0, places[1].0);
        assert_ne!(places[0].0.0.port(), 0);
    }

    #[test]
    fn a_foreign_address_cannot_be_listened_on() {
        let error = addresses(&["192.0.2.1".parse().unwrap()], 0).unwrap_err();
        assert!(matches!(error, StartError::Listen { .. }), "{error}");
        assert!(matches!(addresses(&[], 0), Err(StartError::NothingToListenOn)));
    }
}
