//! Whom to dial, where and when. Pure: time is an argument.
//!
//! Each known peer should have one QUIC and one TCP connection. The peer with the smaller id dials first and the other
//! a little later, so that two peers that find each other at once do not cross. What fails is tried again after 0.5 s,
//! doubling to 30 s; a new address of ours, or the peer's reappearance in discovery, starts from the beginning.
//!
//! A peer that cannot be dialled is called through a member that relays to it. From then on both dial each other again: a
//! router lets in what answers a packet that went out, so that of two attempts that fall together one gets through.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use idlewild_protocol::PeerId;

use crate::address::{Carrier, Place, Written};
use crate::backoff::{Attempts, MIN_BACKOFF};
use crate::book::MAX_PLACES;

/// How much later the peer with the greater id dials.
const SECOND_DELAY: Duration = Duration::from_millis(1_500);

/// Peers that are dialled at all. mDNS of a large network must not fill the memory.
const MAX_KNOWN: usize = 512;

/// Dials that one plan may hold.
const MAX_DIALS: usize = 16;

/// How often a name is looked up while its peer is not connected.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(15);

/// Whom a dial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A peer whose id is known.
    Peer(PeerId),
    /// Whoever is at a static address.
    Static(usize),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Dial these places, at once, over this carrier.
    Dial { target: Target, carrier: Carrier, places: Vec<Place> },
    /// Have one of these members relay to the peer.
    Call { peer: PeerId, relays: Vec<PeerId> },
    /// Look a name up.
    Resolve { index: usize, host: String, port: u16 },
}

/// Which connections a peer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Have {
    pub(crate) quic: bool,
    pub(crate) tcp: bool,
    pub(crate) circuit: bool,
}

impl Have {
    fn has(self, carrier: Carrier) -> bool {
        match carrier {
            Carrier::Quic => self.quic,
            Carrier::Tcp => self.tcp,
            Carrier::Circuit => self.circuit,
        }
    }
}

#[derive(Debug)]
struct Known {
    /// The last confirmed first; at most [`MAX_PLACES`].
    places: Vec<Place>,
    attempts: [Attempts; 2],
    /// Connected members that relay to it.
    relays: BTreeSet<PeerId>,
    calls: Attempts,
}

impl Known {
    fn new(first: Instant) -> Self {
        let attempts = [Attempts::at(first); 2];
        Self { places: Vec::new(), attempts, relays: BTreeSet::new(), calls: Attempts::at(first) }
    }

    /// Whether it is time to have somebody relay: there is no way, and each direct one that is known has failed.
    fn is_to_be_called(&self, have: Have, now: Instant) -> bool {
        let has_tried = self.places.is_empty() || self.attempts.iter().all(|attempts| attempts.failures() > 0);
        !self.relays.is_empty() && have == Have::default() && has_tried && self.calls.is_due(now)
    }
}

#[derive(Debug)]
struct Static {
    written: Written,
    places: Vec<Place>,
    attempts: [Attempts; 2],
    /// Who is there: as written, or as found.
    peer: Option<PeerId>,
    next_lookup: Instant,
}

/// Whom to dial.
#[derive(Debug)]
pub(crate) struct Dialing {
    me: PeerId,
    known: BTreeMap<PeerId, Known>,
    statics: Vec<Static>,
}

impl Dialing {
    pub(crate) fn new(me: PeerId, statics: Vec<Written>, now: Instant) -> Self {
        let statics = statics.into_iter().map(|written| Static {
            places: written.place().into_iter().collect(),
            attempts: [Attempts::at(now); 2],
            peer: written.peer.filter(|peer| *peer != me),
            next_lookup: now,
            written,
        });
        let mut dialing = Self { me, known: BTreeMap::new(), statics: statics.collect() };
        dialing.spread_statics(now);
        dialing
    }

    /// A place of a peer. `afresh`: it was just seen there, so that it is worth an attempt now.
    pub(crate) fn learn(&mut self, peer: PeerId, place: Place, afresh: bool, now: Instant) {
        let first = self.first_attempt(peer, now);
        let Some(known) = self.known(peer, first) else { return };
        if !known.places.contains(&place) {
            known.places.insert(0, place);
            known.places.truncate(MAX_PLACES);
        }
        if afresh {
            known.attempts.iter_mut().for_each(|attempts| attempts.restart(first));
        }
    }

    /// A place where a peer was in an earlier life of this process. It comes after every place known now: those that the
    /// user named must never be pushed out by places that have died.
    pub(crate) fn remember(&mut self, peer: PeerId, place: Place, now: Instant) {
        let first = self.first_attempt(peer, now);
        let Some(known) = self.known(peer, first) else { return };
        if !known.places.contains(&place) && known.places.len() < MAX_PLACES {
            known.places.push(place);
        }
    }

    /// What a connected member says of a peer: where it sees it, and whether it relays to it.
    pub(crate) fn hear(&mut self, peer: PeerId, places: &[Place], relay: Option<PeerId>, now: Instant) {
        let first = self.first_attempt(peer, now);
        let Some(known) = self.known(peer, first) else { return };
        for place in places.iter().filter(|place| !known.places.contains(place)).copied().collect::<Vec<_>>() {
            // Whatever is told, it costs one of what we know ourselves.
            known.places.truncate(MAX_PLACES - 1);
            known.places.push(place);
        }
        if relay.is_some_and(|relay| known.relays.insert(relay)) {
            known.calls.restart(first);
        }
    }

    /// A member does not relay any more: to one peer, or, where none is named, to nobody.
    pub(crate) fn is_no_relay(&mut self, relay: PeerId, to: Option<PeerId>) {
        for (_, known) in self.known.iter_mut().filter(|(peer, _)| to.is_none_or(|to| to == **peer)) {
            known.relays.remove(&relay);
        }
    }

    /// What is known of a peer; none for ourselves, and where no more peers can be known.
    fn known(&mut self, peer: PeerId, first: Instant) -> Option<&mut Known> {
        if peer == self.me || (!self.known.contains_key(&peer) && self.known.len() >= MAX_KNOWN) {
            return None;
        }
        Some(self.known.entry(peer).or_insert_with(|| Known::new(first)))
    }

    /// What to do now. `wait_until` tells when a peer that was refused may be dialled again.
    pub(crate) fn plan(
        &mut self,
        now: Instant,
        have: impl Fn(PeerId) -> Have,
        wait_until: impl Fn(PeerId) -> Option<Instant>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for (peer, known) in &mut self.known {
            let waits = wait_until(*peer).is_some_and(|until| now < until);
            if waits {
                continue;
            }
            let have = have(*peer);
            if !known.places.is_empty() {
                plan_dials(Target::Peer(*peer), &known.places, &mut known.attempts, have, now, &mut steps);
            }
            if known.is_to_be_called(have, now) && steps.len() < MAX_DIALS {
                known.calls.begin();
                steps.push(Step::Call { peer: *peer, relays: known.relays.iter().copied().collect() });
            }
        }
        for (index, fixed) in self.statics.iter_mut().enumerate() {
            let connected = fixed.peer.is_some_and(|peer| have(peer) != Have::default());
            if fixed.written.place().is_none() && !connected && now >= fixed.next_lookup {
                fixed.next_lookup = now + LOOKUP_INTERVAL;
                let (host, port) = (fixed.written.host.clone(), fixed.written.port);
                steps.push(Step::Resolve { index, host, port });
            }
            if fixed.peer.is_none() && !fixed.places.is_empty() {
                let target = Target::Static(index);
                plan_dials(target, &fixed.places, &mut fixed.attempts, Have::default(), now, &mut steps);
            }
        }
        steps
    }

    /// A name was looked up; no place means that it was not found.
    pub(crate) fn resolved(&mut self, index: usize, places: Vec<Place>, now: Instant) {
        if let Some(fixed) = self.statics.get_mut(index)
            && !places.is_empty()
        {
            fixed.places = places;
            fixed.places.truncate(MAX_PLACES);
            self.spread_statics(now);
        }
    }

    /// A dial did not lead to a connection, or the connection did not survive its hello.
    pub(crate) fn failed(&mut self, target: Target, carrier: Carrier, now: Instant, spread: f64) {
        if let Some(attempts) = self.attempts(target, carrier) {
            attempts.failed(now, spread);
        }
    }

    /// A dial led to a connection with `peer`, which has yet to pass its hello.
    pub(crate) fn connected(
        &mut self,
        target: Target,
        carrier: Carrier,
        peer: PeerId,
        place: Option<Place>,
        now: Instant,
    ) {
        if let Some(attempts) = self.attempts(target, carrier) {
            // The next one is due only when this connection has had the time for a hello.
            attempts.connected(now);
        }
        if let (Target::Static(index), Some(place)) = (target, place) {
            self.learn(peer, place, false, now);
            if let Some(fixed) = self.statics.get_mut(index) {
                fixed.peer = Some(peer);
            }
            if let Some(attempts) = self.attempts(Target::Peer(peer), carrier) {
                attempts.postpone(now);
            }
        }
    }

    /// A member was let in over this carrier.
    pub(crate) fn succeeded(&mut self, peer: PeerId, carrier: Carrier, place: Option<Place>, now: Instant) {
        if let Some(place) = place {
            self.learn(peer, place, false, now);
        }
        let dial = self.first_attempt(peer, now);
        if let Some(known) = self.known.get_mut(&peer) {
            if carrier == Carrier::Circuit {
                known.calls.restart(now);
                // It dials now, too.
                known.attempts.iter_mut().for_each(|attempts| attempts.restart(dial));
                return;
            }
            if let Some(at) = place.and_then(|place| known.places.iter().position(|other| *other == place)) {
                known.places.swap(0, at);
            }
            let first = now + SECOND_DELAY;
            for (of, attempts) in Carrier::DIRECT.into_iter().zip(&mut known.attempts) {
                // The other carrier need not wait for what failed earlier: the peer is there now.
                let next = if of == carrier { now } else { attempts.next().min(first) };
                attempts.restart(next);
            }
        }
    }

    /// Somebody else is at this place: it is not the peer's any more.
    pub(crate) fn wrong_peer(&mut self, peer: PeerId, place: Place) {
        if let Some(known) = self.known.get_mut(&peer) {
            known.places.retain(|other| *other != place);
        }
        for fixed in &mut self.statics {
            if fixed.peer == Some(peer) && fixed.written.peer.is_none() && fixed.places.contains(&place) {
                fixed.peer = None;
            }
        }
    }

    /// This place is our own.
    pub(crate) fn own_place(&mut self, place: Place) {
        for known in self.known.values_mut() {
            known.places.retain(|other| *other != place);
        }
        for fixed in &mut self.statics {
            fixed.places.retain(|other| *other != place);
        }
    }

    /// A connection to a peer ended: it is dialled again soon.
    pub(crate) fn lost(&mut self, peer: PeerId, carrier: Carrier, now: Instant) {
        let first = self.first_attempt(peer, now + MIN_BACKOFF / 2);
        if let Some(attempts) = self.attempts(Target::Peer(peer), carrier) {
            attempts.restart(first);
        }
    }

    /// Our own addresses changed: everything is worth another attempt.
    pub(crate) fn restart(&mut self, now: Instant) {
        let me = self.me;
        for (peer, known) in &mut self.known {
            let first = first_attempt(me, *peer, now);
            known.attempts.iter_mut().for_each(|attempts| attempts.restart(first));
        }
        for fixed in &mut self.statics {
            fixed.next_lookup = now;
            fixed.attempts.iter_mut().for_each(|attempts| attempts.restart(now));
        }
    }

    fn first_attempt(&self, peer: PeerId, now: Instant) -> Instant {
        first_attempt(self.me, peer, now)
    }

    /// Static addresses of peers whose id is written are places of known peers.
    fn spread_statics(&mut self, now: Instant) {
        let named: Vec<_> = self
            .statics
            .iter()
            .filter_map(|fixed| Some((fixed.peer?, fixed.places.clone())))
            .flat_map(|(peer, places)| places.into_iter().map(move |place| (peer, place)))
            .collect();
        for (peer, place) in named {
            self.learn(peer, place, false, now);
        }
    }

    fn attempts(&mut self, target: Target, carrier: Carrier) -> Option<&mut Attempts> {
        let ([quic, tcp], calls) = match target {
            Target::Peer(peer) => {
                let known = self.known.get_mut(&peer)?;
                (&mut known.attempts, Some(&mut known.calls))
            }
            Target::Static(index) => (&mut self.statics.get_mut(index)?.attempts, None),
        };
        match carrier {
            Carrier::Quic => Some(quic),
            Carrier::Tcp => Some(tcp),
            Carrier::Circuit => calls,
        }
    }
}

fn first_attempt(me: PeerId, peer: PeerId, now: Instant) -> Instant {
    if me < peer { now } else { now + SECOND_DELAY }
}

fn plan_dials(
    target: Target,
    places: &[Place],
    attempts: &mut [Attempts; 2],
    have: Have,
    now: Instant,
    steps: &mut Vec<Step>,
) {
    for (carrier, attempts) in Carrier::DIRECT.into_iter().zip(attempts) {
        if !have.has(carrier) && attempts.is_due(now) && steps.len() < MAX_DIALS {
            attempts.begin();
            // A static address is dialled one place at a time: another one after each failure.
            let mut places = places.to_vec();
            let turn = attempts.failures() % places.len().max(1);
            places.rotate_left(turn);
            steps.push(Step::Dial { target, carrier, places });
        }
    }
}

#[cfg(test)]
mod tests;
