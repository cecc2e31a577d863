//! Who may connect: strangers get one handshake a minute, by their address before any cryptography, by their id after.
//!
//! Pure: time is an argument. What a refusal costs is decided here; whom to refuse, in `hello`.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use idlewild_protocol::{PeerId, Refusal};
use libp2p::Multiaddr;

use crate::address::Place;
use crate::interfaces::Interfaces;

/// What a stranger waits between two handshakes.
const STRANGER_WAIT: Duration = Duration::from_mins(1);

/// What somebody waits who knows the swarm, but whose ticket does not count: a person who will try a better one.
const TICKET_WAIT: Duration = Duration::from_secs(2);

/// What a member waits that came at a bad moment.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// What a machine waits whose connection broke before the hello was done, for the first time in a while, or from which
/// members have come.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// How long a broken handshake is remembered after its wait.
const STRIKE_MEMORY: Duration = Duration::from_mins(10);

/// What a peer waits whose identity is here already.
const CLONE_WAIT: Duration = Duration::from_secs(30);

/// Remotes that are remembered, of each kind. Where a flood is larger, those that would be let in first are forgotten.
const MAX_REMEMBERED: usize = 1024;

/// Why a connection does not come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("the remote was refused a short while ago")]
    BackingOff,
    #[error("the interface is filtered")]
    Interface,
    #[error("the remote's key is not Ed25519")]
    NotOurKind,
}

/// Who may connect.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Which of our own addresses count.
    pub(crate) interfaces: Interfaces,
    addresses: BTreeMap<SocketAddr, Instant>,
    peers: BTreeMap<PeerId, Instant>,
    /// Where members came from, and when last.
    good: BTreeMap<SocketAddr, Instant>,
}

impl Gate {
    pub(crate) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, addresses: BTreeMap::new(), peers: BTreeMap::new(), good: BTreeMap::new() }
    }

    /// Before the handshake.
    pub(crate) fn check_incoming(&self, local: &Multiaddr, remote: &Multiaddr, now: Instant) -> Result<(), Denied> {
        if let Some((own, _)) = Place::of(local)
            && !own.0.ip().is_loopback()
            && !own.0.ip().is_unspecified()
            && !self.interfaces.is_reachable(own.0.ip())
        {
            return Err(Denied::Interface);
        }
        let waits = key_of(remote).and_then(|key| self.addresses.get(&key)).is_some_and(|until| now < *until);
        if waits { Err(Denied::BackingOff) } else { Ok(()) }
    }

    /// After the handshake, and before dialling somebody known.
    pub(crate) fn check_peer(&self, peer: PeerId, now: Instant) -> Result<(), Denied> {
        match self.waits_until(peer) {
            Some(until) if now < until => Err(Denied::BackingOff),
            Some(_) | None => Ok(()),
        }
    }

    /// Until when a peer is not let in.
    pub(crate) fn waits_until(&self, peer: PeerId) -> Option<Instant> {
        self.peers.get(&peer).copied()
    }

    /// A hello ended with a refusal, ours or theirs.
    pub(crate) fn refused(&mut self, peer: PeerId, remote: Option<&Multiaddr>, refusal: Refusal, now: Instant) {
        let until = now + wait_after(refusal);
        self.peers.insert(peer, until);
        forget_some(&mut self.peers, now);
        if let Some(key) = remote.and_then(key_of) {
            self.addresses.insert(key, until);
            forget_some(&mut self.addresses, now);
        }
    }

    /// Somebody connected and got no further: a stranger, or a member whose connection broke. The first time may be an
    /// accident (who dials several of our addresses at once keeps one and drops the others), the second hardly is.
    pub(crate) fn broke(&mut self, remote: &Multiaddr, now: Instant) {
        let Some(key) = key_of(remote) else { return };
        let waited = self.addresses.get(&key).copied().filter(|until| now < *until + STRIKE_MEMORY);
        let until = match waited {
            // Its handshakes that were under way at once count once.
            Some(until) if now < until => until,
            Some(_) if !self.good.contains_key(&key) => now + STRANGER_WAIT,
            Some(_) | None => now + FIRST_WAIT,
        };
        self.addresses.insert(key, until);
        forget_some(&mut self.addresses, now);
    }

    /// A member sent bytes that are no message.
    pub(crate) fn faulty(&mut self, peer: PeerId, now: Instant) {
        self.peers.insert(peer, now + STRANGER_WAIT);
        forget_some(&mut self.peers, now);
    }

    /// A member came from there.
    pub(crate) fn succeeded(&mut self, peer: PeerId, remote: &Multiaddr, now: Instant) {
        self.peers.remove(&peer);
        if let Some(key) = key_of(remote) {
            self.addresses.remove(&key);
            self.good.insert(key, now);
            if self.good.len() > MAX_REMEMBERED
                && let Some(oldest) = self.good.iter().min_by_key(|(_, at)| **at).map(|(key, _)| *key)
            {
                self.good.remove(&oldest);
            }
        }
    }
}

/// A machine is its IP address; on loopback, where many peers share one, the port counts too.
fn key_of(remote: &Multiaddr) -> Option<SocketAddr> {
    let (place, _) = Place::of(remote)?;
    let ip: IpAddr = place.0.ip();
    Some(if ip.is_loopback() { place.0 } else { SocketAddr::new(ip, 0) })
}

fn wait_after(refusal: Refusal) -> Duration {
    match refusal {
        Refusal::TicketUnknown | Refusal::TicketUsed | Refusal::TicketExpired => TICKET_WAIT,
        Refusal::Busy => BUSY_WAIT,
        Refusal::Clone => CLONE_WAIT,
        Refusal::OtherSwarm | Refusal::BadCertificate | Refusal::CertificateExpired | Refusal::NoCommonVersion => {
            STRANGER_WAIT
        }
    }
}

fn forget_some<K: Ord + Copy>(waiting: &mut BTreeMap<K, Instant>, now: Instant) {
    if waiting.len() <= MAX_REMEMBERED {
        return;
    }
    waiting.retain(|_, until| now < *until);
    if waiting.len() > MAX_REMEMBERED
        && let Some(first) = waiting.iter().min_by_key(|(_, until)| **until).map(|(key, _)| *key)
    {
        waiting.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InterfaceFilter;

    fn gate() -> Gate {
        Gate::new(Interfaces::new(InterfaceFilter::default(), false))
    }

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_stranger_costs_one_handshake_a_minute_whatever_its_port_and_id() {
        let (mut gate, start) = (gate(), Instant::now());
        let local = address("/ip4/10.0.0.1/tcp/14354");
        let mut handshakes = 0;
        for attempt in 0..600_u32 {
            let now = start + Duration::from_secs(1) * attempt;
            let remote = address(&format!("/ip4/10.0.0.9/tcp/{}", 1_000 + attempt));
            if gate.check_incoming(&local, &remote, now).is_ok() {
                handshakes += 1;
                gate.broke(&remote, now);
            }
        }
        assert_eq!(handshakes, 11, "one that may be an accident, and ten minutes");
    }

    #[test]
    fn on_loopback_one_stranger_does_not_shut_out_its_neighbours() {
        let (mut gate, now) = (gate(), Instant::now());
        let local = address("/ip4/127.0.0.1/tcp/1");
        gate.broke(&address("/ip4/127.0.0.1/udp/7/quic-v1"), now);
        assert!(gate.check_incoming(&local, &address("/ip4/127.0.0.1/udp/7/quic-v1"), now).is_err());
        assert!(gate.check_incoming(&local, &address("/ip4/127.0.0.1/udp/8/quic-v1"), now).is_ok());
    }

    #[test]
    fn a_person_with_a_bad_ticket_may_soon_try_another() {
        let (mut gate, now) = (gate(), Instant::now());
        let peer = PeerId([1; 32]);
        gate.refused(peer, None, Refusal::TicketUsed, now);
        assert_eq!(gate.check_peer(peer, now), Err(Denied::BackingOff));
        assert_eq!(gate.check_peer(peer, now + TICKET_WAIT), Ok(()));
    }

    #[test]
    fn a_member_that_got_in_is_forgiven() {
        let (mut gate, now) = (gate(), Instant::now());
        let (peer, remote) = (PeerId([1; 32]), address("/ip4/10.0.0.9/tcp/5"));
        let local = address("/ip4/10.0.0.1/tcp/1");
        gate.refused(peer, Some(&remote), Refusal::BadCertificate, now);
        assert_eq!(gate.check_incoming(&local, &remote, now), Err(Denied::BackingOff));
        gate.succeeded(peer, &remote, now);
        assert_eq!(gate.check_peer(peer, now), Ok(()));
        assert_eq!(gate.check_incoming(&local, &remote, now), Ok(()));
        gate.broke(&remote, now);
        assert_eq!(gate.check_incoming(&local, &remote, now + FIRST_WAIT), Ok(()));
        gate.broke(&remote, now + FIRST_WAIT);
        assert_eq!(gate.check_incoming(&local, &remote, now + 2 * FIRST_WAIT), Ok(()), "a member's broken handshakes");
    }

    #[test]
    fn a_flood_of_strangers_does_not_fill_the_memory() {
        let (mut gate, now) = (gate(), Instant::now());
        for n in 0..5_000_u32 {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&n.to_le_bytes());
            gate.faulty(PeerId(id), now + Duration::from_millis(u64::from(n)));
        }
        assert!(gate.peers.len() <= MAX_REMEMBERED + 1);
    }
}
