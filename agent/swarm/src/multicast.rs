//! Whether multicast works here: libp2p's discovery only logs that it does not, and a user should be told once.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use crate::event::Hint;
use crate::interfaces::Interfaces;

/// mDNS's group and port.
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 251), 5353);

/// An mDNS packet that asks nothing: a header with no questions. Receivers ignore it.
const NOTHING: [u8; 12] = [0; 12];

/// What is wrong with multicast, interface by interface.
pub(crate) fn check(interfaces: &Interfaces) -> Vec<Hint> {
    let candidates = interfaces.multicast_candidates().into_iter();
    candidates
        .filter_map(|(interface, ip)| {
            let reason = send(ip).err()?.to_string();
            Some(Hint::NoMulticast { interface, reason })
        })
        .collect()
}

fn send(from: Ipv4Addr) -> std::io::Result<()> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.set_nonblocking(true)?;
    socket.send_to(&NOTHING, GROUP).map(|_sent| ())
}
