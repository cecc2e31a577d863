//! Relaying for members: whom this peer relays for, and how much.
//!
//! A relay passes on what two members say to each other, encrypted between them. It is libp2p's circuit relay v2, for
//! members only, and with limits for what goes through: tokens, ids and gossip, never KV.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use libp2p::{Multiaddr, PeerId, relay};

use crate::handle::Shared;
use crate::identity::from_libp2p;

/// Members that may be reached through this peer at once.
const MAX_RESERVATIONS: usize = 64;

/// Of one member: one on each of its connections.
const MAX_RESERVATIONS_PER_PEER: usize = 2;

/// Circuits at once.
const MAX_CIRCUITS: usize = 64;

/// Of one member that calls others.
const MAX_CIRCUITS_PER_PEER: usize = 16;

/// What may pass through one circuit, both ways together: a million tokens, or two days of gossip. At the end of its
/// circuit a peer counts as gone for a moment, so that it should be rare.
const MAX_CIRCUIT_BYTES: u64 = 256 * 1024 * 1024;

/// How long a circuit may last.
const MAX_CIRCUIT_DURATION: Duration = Duration::from_hours(24);

/// Whether this peer relays for other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelayMode {
    /// Where a member has reached it from another network, so that it is of use to others.
    #[default]
    Auto,
    /// From the start.
    Always,
    /// Never.
    Never,
}

/// The relay's end. It serves nobody before [`relay::Behaviour::set_status`].
pub(crate) fn behaviour(me: PeerId, members: Arc<Shared>) -> relay::Behaviour {
    let mut config = relay::Config {
        max_reservations: MAX_RESERVATIONS,
        max_reservations_per_peer: MAX_RESERVATIONS_PER_PEER,
        max_circuits: MAX_CIRCUITS,
        max_circuits_per_peer: MAX_CIRCUITS_PER_PEER,
        max_circuit_bytes: MAX_CIRCUIT_BYTES,
        max_circuit_duration: MAX_CIRCUIT_DURATION,
        ..relay::Config::default()
    };
    // Asked first, so that strangers use up nobody's rate.
    config.reservation_rate_limiters.insert(0, members_only(Arc::clone(&members)));
    config.circuit_src_rate_limiters.insert(0, members_only(members));
    let mut behaviour = relay::Behaviour::new(me, config);
    behaviour.set_status(Some(relay::Status::Disable));
    behaviour
}

/// Strangers have a connection until their hello fails: they are relayed to no one.
fn members_only(members: Arc<Shared>) -> Box<dyn relay::RateLimiter> {
    Box::new(move |peer: PeerId, _: &Multiaddr, _: Instant| {
        from_libp2p(peer).is_some_and(|peer| members.peer(peer).is_some())
    })
}
