//! Carrying out the dialing plan, and learning from what becomes of it.

use std::time::Instant;

use idlewild_protocol::PeerId;
use libp2p::Multiaddr;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError};

use super::{EventLoop, Report};
use crate::address::{Carrier, Place, circuit};
use crate::dialing::{Have, Step, Target};
use crate::identity::{from_libp2p, to_libp2p};

/// Places that a name may have.
const MAX_RESOLVED: usize = 8;

/// A dial under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dial {
    pub(super) target: Target,
    pub(super) carrier: Carrier,
}

impl EventLoop {
    pub(super) fn dial_due(&mut self, now: Instant) {
        let Self { dialing, members, connections, swarm, .. } = self;
        let gate = &swarm.behaviour().streams.gate;
        let have = |peer| members.get(&peer).map_or_else(Have::default, |member| member.have(connections));
        let steps = dialing.plan(now, have, |peer| gate.waits_until(peer));
        for step in steps {
            match step {
                Step::Dial { target, carrier, places } => self.dial(target, carrier, &places, now),
                Step::Call { peer, relays } => self.call(peer, &relays, now),
                Step::Resolve { index, host, port } => self.resolve(index, host, port),
            }
        }
    }

    fn dial(&mut self, target: Target, carrier: Carrier, places: &[Place], now: Instant) {
        let address = if carrier == Carrier::Quic { Place::quic } else { Place::tcp };
        let addresses = places.iter().map(|place| address(*place)).collect();
        self.dial_addresses(target, carrier, addresses, now);
    }

    /// Has a member relay to a peer.
    fn call(&mut self, peer: PeerId, relays: &[PeerId], now: Instant) {
        let through = |relay: &PeerId| {
            let (libp2p, at) = self.direct_address(*relay)?;
            Some(circuit(at, libp2p))
        };
        let addresses: Vec<_> = relays.iter().filter_map(through).collect();
        let target = Target::Peer(peer);
        if addresses.is_empty() {
            self.dialing.failed(target, Carrier::Circuit, now, rand::random());
        } else {
            self.dial_addresses(target, Carrier::Circuit, addresses, now);
        }
    }

    fn dial_addresses(&mut self, target: Target, carrier: Carrier, addresses: Vec<Multiaddr>, now: Instant) {
        let Some(options) = self.dial_options(target, carrier, addresses) else { return };
        let id = options.connection_id();
        self.dials.insert(id, Dial { target, carrier });
        tracing::trace!(?target, ?carrier, "dialling");
        if let Err(error) = self.swarm.dial(options) {
            tracing::debug!(?target, %error, "dial was not begun");
            self.dials.remove(&id);
            self.dialing.failed(target, carrier, now, rand::random());
        }
    }

    fn dial_options(&self, target: Target, carrier: Carrier, addresses: Vec<Multiaddr>) -> Option<DialOpts> {
        // From the listening port, so that the other side learns where we listen; TCP would cross with the other's
        // dial.
        let own_port = carrier == Carrier::Quic && self.reuse_quic_port;
        Some(match target {
            Target::Peer(peer) => {
                let options = DialOpts::peer_id(to_libp2p(peer)?).condition(PeerCondition::Always).addresses(addresses);
                if own_port { options.build() } else { options.allocate_new_port().build() }
            }
            Target::Static(_) => {
                let options = DialOpts::unknown_peer_id().address(addresses.into_iter().next()?);
                if own_port { options.build() } else { options.allocate_new_port().build() }
            }
        })
    }

    fn resolve(&self, index: usize, host: String, port: u16) {
        let reporter = self.reporter.clone();
        tokio::spawn(async move {
            let places = match tokio::net::lookup_host((host.as_str(), port)).await {
                Ok(found) => found.take(MAX_RESOLVED).map(Place).collect(),
                Err(error) => {
                    tracing::debug!(%host, %error, "static peer's name was not found");
                    Vec::new()
                }
            };
            drop(reporter.send(Report::Resolved { index, places }).await);
        });
    }

    pub(super) fn handle_dial_error(&mut self, id: ConnectionId, error: &DialError) {
        let Some(Dial { target, carrier }) = self.dials.remove(&id) else { return };
        tracing::debug!(?target, ?carrier, %error, "dial failed");
        let now = Instant::now();
        self.dialing.failed(target, carrier, now, rand::random());
        match error {
            DialError::WrongPeerId { obtained, address } => {
                self.handle_wrong_peer(target, from_libp2p(*obtained), address, now);
            }
            DialError::LocalPeerId { address } => self.handle_own_address(address),
            DialError::NoAddresses
            | DialError::DialPeerConditionFalse(_)
            | DialError::Aborted
            | DialError::Denied { .. }
            | DialError::Transport(_) => {}
        }
    }

    fn handle_wrong_peer(&mut self, target: Target, found: Option<PeerId>, address: &Multiaddr, now: Instant) {
        let Some((place, _)) = Place::of(address) else { return };
        if let Target::Peer(peer) = target {
            tracing::debug!(%peer, ?found, %place, "somebody else is at the peer's address");
            self.dialing.wrong_peer(peer, place);
        }
        // Whoever is there may be a member that got this address; its hello will tell.
        if let Some(found) = found {
            self.dialing.learn(found, place, false, now);
        }
    }

    fn handle_own_address(&mut self, address: &Multiaddr) {
        let Some((place, _)) = Place::of(address) else { return };
        self.dialing.own_place(place);
        if self.is_elsewhere(place) {
            self.tell_clone(address);
        }
    }

    /// mDNS saw peers; whether they are of our swarm, their hello will tell.
    pub(super) fn handle_discovered(&mut self, found: Vec<(libp2p::PeerId, Multiaddr)>) {
        let now = Instant::now();
        self.swarm.behaviour_mut().streams.gate.interfaces.refresh();
        for (peer, address) in found {
            let (Some(peer), Some((place, _))) = (from_libp2p(peer), Place::of(&address)) else { continue };
            if self.swarm.behaviour().streams.gate.interfaces.may_dial(place.0.ip()) {
                self.dialing.learn(peer, place, true, now);
            }
        }
        self.dial_due(now);
    }
}
