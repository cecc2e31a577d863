//! Members that do not reach each other find a way: who sees whom is told around, some relay, and circuits through them last
//! until there is a direct connection.
//!
//! ```text
//! neighbours     --> every member, when they change: places to dial, and whom the sender relays to
//! reservation    --> at a member that relays, while some member is not reached directly
//! circuit        --> through a member that relays to whom we want (dialing decides); both then dial each other again
//! a direct link  --> the conversation moves to it; the circuit is closed when no job is on it any more
//! ```

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use idlewild_protocol::{
    ControlMessage, MAX_NEIGHBOURS_PER_MESSAGE, MAX_PLACES_PER_MEMBER, Neighbours, PeerId, Whereabouts, frame,
};
use libp2p::core::transport::ListenerId;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, relay};

use super::EventLoop;
use super::connections::{Connection, Phase};
use crate::RelayMode;
use crate::address::{Carrier, Place, circuit};
use crate::backoff::Attempts;
use crate::identity::from_libp2p;
use crate::muxer::MAX_STREAMS;
use crate::transport::TCP_SLOTS;

/// Between two tellings of our neighbours, however often they change.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// Relays that are asked for a reservation: one may leave at any time.
const RELAYS: usize = 2;

/// How long a circuit stays beside a direct connection, which may prove to be none.
const SPARE_LIMIT: Duration = Duration::from_secs(10);

/// What a member said last of whom it sees.
#[derive(Debug, Default)]
struct Heard {
    relays: bool,
    members: BTreeSet<PeerId>,
}

/// A reservation that we asked for.
#[derive(Debug)]
struct Reservation {
    /// None while it waits for its next attempt.
    listener: Option<ListenerId>,
    attempts: Attempts,
}

/// What is known of ways between members.
#[derive(Debug)]
pub(crate) struct Circuits {
    mode: RelayMode,
    /// Whether this peer relays.
    relays: bool,
    /// Of connected members.
    heard: BTreeMap<PeerId, Heard>,
    reservations: BTreeMap<PeerId, Reservation>,
    /// Members that have a reservation here.
    reserved: BTreeSet<PeerId>,
    /// What we tell, its version, and since when.
    told: Neighbours,
    version: u64,
    told_at: Option<Instant>,
}

impl Circuits {
    pub(super) fn new(mode: RelayMode) -> Self {
        Self {
            mode,
            relays: false,
            heard: BTreeMap::new(),
            reservations: BTreeMap::new(),
            reserved: BTreeSet::new(),
            told: Neighbours::default(),
            version: 1,
            told_at: None,
        }
    }

    /// Whether the listener is one of a reservation.
    pub(super) fn has(&self, listener: ListenerId) -> bool {
        self.reservations.values().any(|reservation| reservation.listener == Some(listener))
    }
}

impl EventLoop {
    pub(super) fn begin_relaying(&mut self) {
        if self.circuits.mode == RelayMode::Always {
            self.relay();
        }
    }

    fn relay(&mut self) {
        if let Some(relay) = self.swarm.behaviour_mut().relay.as_mut() {
            tracing::info!("this peer relays between members that do not reach each other");
            relay.set_status(Some(relay::Status::Enable));
            self.circuits.relays = true;
        }
    }

    /// A member's connection is ready. One that came over TCP from another network shows that others may come, too (QUIC
    /// may have slipped in where we had dialled out).
    pub(super) fn note_reach(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let interfaces = &self.swarm.behaviour().streams.gate.interfaces;
        let is_foreign = match Place::of(&connection.remote) {
            Some((place, Carrier::Tcp)) => !connection.dialled && interfaces.is_foreign(place.0.ip()),
            Some(_) | None => false,
        };
        if is_foreign && self.circuits.mode == RelayMode::Auto && !self.circuits.relays {
            self.relay();
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "libp2p may add events")]
    pub(super) fn handle_relay(&mut self, event: &relay::Event) {
        tracing::debug!(?event, "relaying");
        match event {
            relay::Event::ReservationReqAccepted { src_peer_id, .. } => {
                self.circuits.reserved.extend(from_libp2p(*src_peer_id));
            }
            relay::Event::ReservationTimedOut { src_peer_id } => {
                if let Some(peer) = from_libp2p(*src_peer_id) {
                    self.circuits.reserved.remove(&peer);
                }
            }
            // A closed connection is said to have had a reservation whether it had one or not: a call tells.
            _ => {}
        }
    }

    /// Where a peer is reached without a relay, as an address of it.
    pub(super) fn direct_address(&self, peer: PeerId) -> Option<(libp2p::PeerId, Multiaddr)> {
        let link = Carrier::DIRECT.into_iter().find_map(|carrier| self.ready_link(peer, carrier));
        let (libp2p, id) = link?;
        let (place, carrier) = Place::of(&self.connections.get(&id)?.remote)?;
        Some((libp2p, if carrier == Carrier::Quic { place.quic() } else { place.tcp() }))
    }

    /// A member says whom it is connected to.
    pub(super) fn handle_neighbours(&mut self, from: PeerId, neighbours: Neighbours) {
        if !self.members.contains_key(&from) {
            return;
        }
        let now = Instant::now();
        let interfaces = &self.swarm.behaviour().streams.gate.interfaces;
        let before = self.circuits.heard.remove(&from).unwrap_or_default();
        let mut heard = Heard { relays: neighbours.relays, members: BTreeSet::new() };
        for Whereabouts { peer, places, reserved } in neighbours.members {
            let places: Vec<_> =
                places.into_iter().filter(|place| interfaces.may_dial(place.ip())).map(Place).collect();
            let relay = (neighbours.relays && reserved).then_some(from);
            self.dialing.hear(peer, &places, relay, now);
            if relay.is_none() {
                self.dialing.is_no_relay(from, Some(peer));
            }
            heard.members.insert(peer);
        }
        for gone in before.members.difference(&heard.members) {
            self.dialing.is_no_relay(from, Some(*gone));
        }
        self.circuits.heard.insert(from, heard);
        self.dial_due(now);
    }

    /// A member is not connected any more.
    pub(super) fn forget_neighbours_of(&mut self, peer: PeerId) {
        self.circuits.heard.remove(&peer);
        self.circuits.reserved.remove(&peer);
        self.dialing.is_no_relay(peer, None);
    }

    /// Tells every member whom we are connected to, where that has changed or it has not been told.
    pub(super) fn tell_neighbours(&mut self, now: Instant) {
        if self.circuits.told_at.is_some_and(|at| now < at + TELL_INTERVAL) {
            return;
        }
        let neighbours = self.neighbours();
        if neighbours != self.circuits.told {
            self.circuits.told = neighbours;
            self.circuits.version += 1;
        }
        let version = self.circuits.version;
        let mut waiting =
            self.members.values_mut().filter(|member| member.is_heard() && member.told < version).peekable();
        if waiting.peek().is_none() {
            return;
        }
        self.circuits.told_at = Some(now);
        let Ok(frame) = frame(&ControlMessage::Neighbours(self.circuits.told.clone())) else { return };
        for member in waiting {
            // A full queue is tried again.
            if member.state.outgoing.try_send(frame.clone()).is_ok() {
                member.told = version;
            }
        }
    }

    fn neighbours(&self) -> Neighbours {
        let whereabouts = |peer: PeerId| {
            let direct = |c: &&Connection| c.peer == peer && c.carrier != Carrier::Circuit && c.phase == Phase::Ready;
            let direct: Vec<_> = self.connections.values().filter(direct).collect();
            let mut places: Vec<_> = direct.iter().filter_map(|c| c.place()).map(|place| place.0).collect();
            places.sort_unstable();
            places.dedup();
            places.truncate(MAX_PLACES_PER_MEMBER);
            let reserved = self.circuits.reserved.contains(&peer);
            (!direct.is_empty()).then_some(Whereabouts { peer, places, reserved })
        };
        let heard = self.members.iter().filter(|(_, member)| member.is_heard());
        let members = heard.filter_map(|(peer, _)| whereabouts(*peer)).take(MAX_NEIGHBOURS_PER_MESSAGE);
        Neighbours { relays: self.circuits.relays, members: members.collect() }
    }

    /// Asks members that relay for reservations, while some member is not reached directly.
    pub(super) fn keep_reservations(&mut self, now: Instant) {
        let me = self.shared.me;
        let is_far = |peer: &PeerId| *peer != me && self.direct_address(*peer).is_none();
        if !self.circuits.heard.values().flat_map(|heard| &heard.members).any(is_far) {
            return;
        }
        let relays = self.circuits.heard.iter().filter(|(_, heard)| heard.relays).map(|(peer, _)| *peer);
        let near: Vec<_> = relays.filter_map(|peer| Some((peer, self.direct_address(peer)?))).collect();
        let held = self.circuits.reservations.values().filter(|reservation| reservation.listener.is_some()).count();
        let mut free = RELAYS.saturating_sub(held);
        for (relay, (libp2p, address)) in near {
            let reservation = self.circuits.reservations.entry(relay);
            let reservation =
                reservation.or_insert_with(|| Reservation { listener: None, attempts: Attempts::at(now) });
            if free > 0 && reservation.listener.is_none() && reservation.attempts.is_due(now) {
                free -= 1;
                match self.swarm.listen_on(circuit(address, libp2p)) {
                    Ok(listener) => reservation.listener = Some(listener),
                    Err(error) => {
                        tracing::debug!(%relay, %error, "no reservation was asked for");
                        reservation.attempts.failed(now, rand::random());
                    }
                }
            }
        }
    }

    /// A reservation was refused, or its relay's connection is gone.
    pub(super) fn handle_reservation_ended(&mut self, listener: ListenerId, reason: &std::io::Result<()>) {
        tracing::debug!(?reason, "a reservation ended");
        let now = Instant::now();
        for (relay, reservation) in &mut self.circuits.reservations {
            if reservation.listener == Some(listener) {
                tracing::debug!(%relay, "it was there");
                reservation.listener = None;
                reservation.attempts.failed(now, rand::random());
            }
        }
        let members = &self.members;
        self.circuits
            .reservations
            .retain(|relay, reservation| reservation.listener.is_some() || members.contains_key(relay));
    }

    /// As the peer with the smaller id: closes circuits beside a direct connection that has proved itself, when no job is on
    /// them.
    pub(super) fn close_idle_circuits(&mut self, now: Instant) {
        let me = self.shared.me;
        let is_proved = |peer| {
            let mut links = Carrier::DIRECT.into_iter().filter_map(|carrier| self.ready_link(peer, carrier));
            links.any(|(_, id)| self.connections.get(&id).is_some_and(|c| now >= c.since + SPARE_LIMIT))
        };
        let is_idle = |c: &Connection| {
            c.slots.as_ref().is_none_or(|slots| slots.available_permits() == TCP_SLOTS)
                && c.served.as_ref().is_none_or(|served| served.available_permits() == MAX_STREAMS)
        };
        let is_spare = |c: &Connection| {
            let moved = self.members.get(&c.peer).is_some_and(|member| !self.talks_on_circuit(member));
            c.carrier == Carrier::Circuit && c.phase == Phase::Ready && me < c.peer && moved && is_idle(c)
        };
        let spare = self.connections.iter().filter(|(_, c)| is_spare(c) && is_proved(c.peer)).map(|(id, _)| *id);
        for id in spare.collect::<Vec<_>>() {
            self.give_up(id);
        }
    }
}
