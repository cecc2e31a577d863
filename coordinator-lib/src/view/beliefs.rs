//! The view itself.

use core::time::Duration;
use std::collections::BTreeMap;

use idlewild_protocol::{
    BootId, DecodeError, DepartureCause, Digest, DigestVersion, MAX_VERSIONS_PER_MESSAGE, ModelId, ModelInfo,
    MoveTimes, PairRate, PeerId, SignedDigest,
};

use super::carriers::{Carriers, Index};
use super::peer::{Link, PeerView};
use crate::Now;
use crate::election::Candidate;

/// Peers that a view holds unless told otherwise, and as many departed ones: what one message of anti-entropy can name.
pub const MAX_PEERS: usize = MAX_VERSIONS_PER_MESSAGE;

/// A digest that nobody refreshed for so long is dropped, and with it a peer that we are not connected to. Digests come
/// at 1 Hz from a neighbour, and within a few rounds of some seconds by anti-entropy.
pub const DIGEST_LIFETIME: Duration = Duration::from_mins(1);

/// What became of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It says more than what was known.
    Newer,
    /// The same or a later one was known, or it claims to be ours.
    Stale,
    /// Its peer's life is over as far as we know: connect to it first.
    Departed,
    /// No room for one more peer.
    Full,
}

/// The departure of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Departed {
    boot: BootId,
    at: Now,
    cause: DepartureCause,
}

/// Everything that is believed of peers. Bounded, by [`MAX_PEERS`] unless told otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    me: PeerId,
    peers_max: usize,
    peers: BTreeMap<PeerId, PeerView>,
    index: Index,
    departed: BTreeMap<PeerId, Departed>,
    links: BTreeMap<PeerId, Link>,
}

impl View {
    /// Of nobody yet, ourselves included until [`View::state_own`].
    pub fn new(me: PeerId) -> Self {
        Self::bounded(me, MAX_PEERS)
    }

    /// The same with room for `peers_max` peers, ourselves included, and as many departed ones. One message of
    /// anti-entropy names [`MAX_VERSIONS_PER_MESSAGE`] of them: beyond that digests have to come some other way.
    pub fn bounded(me: PeerId, peers_max: usize) -> Self {
        Self {
            me,
            peers_max,
            peers: BTreeMap::new(),
            index: Index::default(),
            departed: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    /// Whose view it is.
    pub fn me(&self) -> PeerId {
        self.me
    }

    /// What we now say of ourselves; `signed` is what will be passed on, and may state fewer models.
    pub fn state_own(&mut self, now: Now, digest: Digest, signed: Option<SignedDigest>) {
        debug_assert_eq!(digest.peer, self.me, "a digest of our own");
        let peer = self.peers.entry(self.me).or_insert_with(|| PeerView::new(digest.boot, now));
        peer.connected_since.get_or_insert(now);
        self.index.change(peer.digest.as_ref(), Some(&digest));
        peer.believe(now, digest, signed);
    }

    /// Takes in a digest as it came over the wire, after checking its signature.
    pub fn hear(&mut self, now: Now, signed: SignedDigest) -> Result<(PeerId, Applied), DecodeError> {
        let digest = signed.verify()?;
        let peer = digest.peer;
        let applied = self.apply(now, digest);
        if let (Applied::Newer, Some(view)) = (applied, self.peers.get_mut(&peer)) {
            view.signed = Some(signed);
        }
        Ok((peer, applied))
    }

    /// Takes in a digest that was verified, whoever passed it on.
    pub fn apply(&mut self, now: Now, digest: Digest) -> Applied {
        let peer = digest.peer;
        if peer == self.me {
            return Applied::Stale;
        }
        if self.is_over(peer, digest.boot) {
            return Applied::Departed;
        }
        if self.peers.get(&peer).is_some_and(|known| !known.is_older_than(&digest)) {
            return Applied::Stale;
        }
        if !self.has_room_for(peer) {
            return Applied::Full;
        }
        self.departed.remove(&peer);
        let view = self.peers.entry(peer).or_insert_with(|| PeerView::new(digest.boot, now));
        let digest = view.completed(digest);
        self.index.change(view.digest.as_ref(), Some(&digest));
        view.believe(now, digest, None);
        Applied::Newer
    }

    /// The peer names all its models; its digests, the present one too, state those that matter most. A peer that is not
    /// known is not listened to: who connects names them anew.
    pub fn names_models(&mut self, peer: PeerId, models: Vec<ModelInfo>) {
        let Some(view) = self.peers.get_mut(&peer) else { return };
        if let Some(digest) = view.named(models) {
            self.index.change(view.digest.as_ref(), Some(&digest));
            view.digest = Some(digest);
        }
    }

    /// The peer itself says that nothing has changed since that digest: what we hold is as good as new. False where we
    /// hold another one.
    pub fn confirm(&mut self, now: Now, version: DigestVersion) -> bool {
        let Some(view) = self.peers.get_mut(&version.peer) else { return false };
        let is_held = view.digest.as_ref().is_some_and(|d| d.version() == (version.boot, version.sequence));
        if is_held {
            view.heard_at = now;
        }
        is_held
    }

    /// A connection to the peer is up and its hello is done. It may be the same life that we thought had departed.
    pub fn connected(&mut self, now: Now, peer: PeerId, boot: BootId) {
        self.departed.remove(&peer);
        // Connections are bounded by the swarm, far below this view's bound.
        self.has_room_for(peer);
        let view = self.peers.entry(peer).or_insert_with(|| PeerView::new(boot, now));
        if view.boot < boot {
            self.index.change(view.digest.as_ref(), None);
            *view = PeerView::new(boot, now);
        }
        view.connected_since.get_or_insert(now);
    }

    /// The peer is gone: it said so, its connection closed, or it fell silent.
    pub fn departed(&mut self, now: Now, peer: PeerId, cause: DepartureCause) {
        if peer == self.me {
            return;
        }
        let known = self.remove(peer).map(|view| view.boot);
        let earlier = self.departed.get(&peer).map(|gone| gone.boot);
        if let Some(boot) = known.max(earlier) {
            self.departed.insert(peer, Departed { boot, at: now, cause });
            drop_earliest(&mut self.departed, self.peers_max, |gone| gone.at);
        }
    }

    /// Why a peer departed, if it did and has not come back.
    pub fn departure(&self, peer: PeerId) -> Option<(Now, DepartureCause)> {
        self.departed.get(&peer).map(|gone| (gone.at, gone.cause))
    }

    /// Whether this life of the peer has departed.
    pub(super) fn is_over(&self, peer: PeerId, boot: BootId) -> bool {
        self.departed.get(&peer).is_some_and(|gone| boot <= gone.boot)
    }

    /// What we measured of the link to `peer`; it outlives a departure.
    pub fn link(&mut self, peer: PeerId, bytes_per_s: Option<u64>, rtt_us: u32) {
        if self.links.len() < self.peers_max || self.links.contains_key(&peer) {
            self.links.insert(peer, Link { bytes_per_s, rtt_us });
        }
    }

    /// What we measured of the link to `peer`.
    pub fn link_to(&self, peer: PeerId) -> Option<Link> {
        self.links.get(&peer).copied()
    }

    /// The link between two peers: ours as we measured it, else as either end's digest states it.
    pub fn link_between(&self, one: PeerId, other: PeerId) -> Option<Link> {
        let ours = match self.me {
            me if me == one => self.link_to(other),
            me if me == other => self.link_to(one),
            _ => None,
        };
        ours.or_else(|| self.stated(one, other)).or_else(|| self.stated(other, one))
    }

    fn stated(&self, by: PeerId, to: PeerId) -> Option<Link> {
        let pairs = &self.peer(by)?.digest.as_ref()?.pairs;
        let of_rate = |rate: &PairRate| Link { bytes_per_s: Some(rate.bytes_per_s), rtt_us: rate.rtt_us };
        pairs.iter().find(|rate| rate.peer == to).map(of_rate)
    }

    /// What is believed of `peer`; none where it is unknown or departed.
    pub fn peer(&self, peer: PeerId) -> Option<&PeerView> {
        self.peers.get(&peer)
    }

    /// Everybody who is not departed, by id; ourselves too once we have stated a digest.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &PeerView)> {
        self.peers.iter().map(|(peer, view)| (*peer, view))
    }

    /// What everybody here says that moves take.
    pub fn move_times(&self) -> impl Iterator<Item = MoveTimes> {
        self.peers.values().filter_map(|view| Some(view.digest.as_ref()?.move_times))
    }

    /// The live view for the election: ourselves and those connected to us, with their expected remaining sessions.
    pub fn candidates(&self, now: Now) -> Vec<Candidate> {
        let live = self.peers().filter(|(peer, view)| view.is_connected() && *peer != self.me);
        let me = self.peer(self.me).map_or(0.0, |view| view.expected_remaining_s(now));
        let of_others = live.map(|(peer, view)| Candidate { peer, remaining_s: view.expected_remaining_s(now) });
        core::iter::once(Candidate { peer: self.me, remaining_s: me }).chain(of_others).collect()
    }

    /// Drops digests that nobody refreshed, and peers of whom nothing else is known.
    pub fn expire(&mut self, now: Now) {
        let me = self.me;
        let is_old = |view: &PeerView| now.saturating_sub(view.heard_at) > DIGEST_LIFETIME;
        let index = &mut self.index;
        self.peers.retain(|peer, view| {
            if *peer == me || !is_old(view) {
                return true;
            }
            index.change(view.digest.as_ref(), None);
            view.forget_digest();
            view.is_connected()
        });
    }

    /// Who serves with `model`, sorted for a search; none where nobody does.
    pub fn carriers(&self, model: ModelId) -> Option<&Carriers> {
        self.index.carriers(model)
    }

    fn remove(&mut self, peer: PeerId) -> Option<PeerView> {
        let removed = self.peers.remove(&peer);
        if let Some(view) = &removed {
            self.index.change(view.digest.as_ref(), None);
        }
        removed
    }

    /// Whether one more peer may be held. Makes room where it must: the peer that was heard longest ago of those that
    /// we are not connected to goes.
    fn has_room_for(&mut self, peer: PeerId) -> bool {
        if self.peers.len() < self.peers_max || self.peers.contains_key(&peer) {
            return true;
        }
        let unconnected = self.peers.iter().filter(|(_, view)| !view.is_connected());
        let oldest = unconnected.min_by_key(|(_, view)| view.heard_at).map(|(peer, _)| *peer);
        oldest.is_some_and(|peer| self.remove(peer).is_some())
    }
}

/// Keeps the number of departed peers within `items_max`.
fn drop_earliest<T>(map: &mut BTreeMap<PeerId, T>, items_max: usize, at: impl Fn(&T) -> Now) {
    if map.len() > items_max {
        let earliest = map.iter().min_by_key(|(_, item)| at(item)).map(|(peer, _)| *peer);
        if let Some(peer) = earliest {
            map.remove(&peer);
        }
    }
}
