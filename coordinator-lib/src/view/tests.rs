//! What a view believes, and what it forgets.

use core::time::Duration;

use idlewild_protocol::{
    BootId, DepartureCause, Digest, DigestVersion, MoveTimes, PairRate, PeerId, PeerState, QuantisedSurvival,
    SignedDigest,
};
use proptest::prelude::*;

use super::{Applied, DIGEST_LIFETIME, Link, MAX_PEERS, View};
use crate::Now;

const ME: PeerId = PeerId([0; 32]);

fn peer(n: u16) -> PeerId {
    let mut id = [1; 32];
    id[..2].copy_from_slice(&n.to_be_bytes());
    PeerId(id)
}

fn s(s: u64) -> Now {
    Duration::from_secs(s)
}

fn digest(peer: PeerId, boot: u64, sequence: u64) -> Digest {
    Digest {
        peer,
        boot: BootId(boot),
        sequence,
        state: PeerState::Serving,
        age_s: 0,
        survival: QuantisedSurvival::of(|t_s| (-t_s / 600.0).exp()),
        models: Vec::new(),
        up_bytes_per_s: 0,
        down_bytes_per_s: 0,
        move_times: MoveTimes::default(),
        pairs: Vec::new(),
        coordinator: None,
    }
}

fn version(peer: PeerId, boot: u64, sequence: u64) -> DigestVersion {
    DigestVersion { peer, boot: BootId(boot), sequence }
}

#[test]
fn only_a_later_digest_is_believed() {
    let mut view = View::new(ME);
    for ((boot, sequence), applied) in [
        ((5, 3), Applied::Newer),
        ((5, 3), Applied::Stale),
        ((5, 2), Applied::Stale),
        ((4, 9), Applied::Stale),
        ((5, 4), Applied::Newer),
        ((6, 1), Applied::Newer),
        ((5, 99), Applied::Stale),
    ] {
        assert_eq!(view.apply(s(1), digest(peer(1), boot, sequence)), applied, "{boot} {sequence}");
    }
    assert_eq!(view.versions(), [version(peer(1), 6, 1)]);
}

#[test]
fn gossip_does_not_revive_a_departed_peer() {
    let mut view = View::new(ME);
    view.connected(s(1), peer(1), BootId(5));
    assert_eq!(view.apply(s(1), digest(peer(1), 5, 3)), Applied::Newer);
    view.departed(s(2), peer(1), DepartureCause::Crash);
    for sequence in [3, 4, 1000] {
        assert_eq!(view.apply(s(3), digest(peer(1), 5, sequence)), Applied::Departed);
    }
    assert!(view.peer(peer(1)).is_none());
    assert_eq!(view.departure(peer(1)), Some((s(2), DepartureCause::Crash)));
}

#[test]
fn a_later_boot_revives_a_departed_peer() {
    let mut view = View::new(ME);
    view.connected(s(1), peer(1), BootId(5));
    view.departed(s(2), peer(1), DepartureCause::Crash);
    assert_eq!(view.apply(s(3), digest(peer(1), 6, 1)), Applied::Newer);
    assert_eq!(view.departure(peer(1)), None);
}

#[test]
fn a_connection_revives_a_departed_peer() {
    let mut view = View::new(ME);
    view.connected(s(1), peer(1), BootId(5));
    view.departed(s(2), peer(1), DepartureCause::Network);
    view.connected(s(3), peer(1), BootId(5));
    assert_eq!(view.apply(s(3), digest(peer(1), 5, 4)), Applied::Newer);
    assert_eq!(view.peer(peer(1)).unwrap().connected_since, Some(s(3)));
}

#[test]
fn a_new_life_takes_nothing_from_the_old_one() {
    let mut view = View::new(ME);
    view.connected(s(1), peer(1), BootId(5));
    view.apply(s(1), digest(peer(1), 5, 3));
    view.connected(s(9), peer(1), BootId(6));
    assert_eq!(view.peer(peer(1)).unwrap().digest, None);
    assert_eq!(view.apply(s(9), digest(peer(1), 5, 4)), Applied::Stale);
}

#[test]
fn nobody_else_speaks_for_us() {
    let mut view = View::new(ME);
    view.state_own(s(1), digest(ME, 5, 1), None);
    assert_eq!(view.apply(s(1), digest(ME, 9, 9)), Applied::Stale);
    view.departed(s(1), ME, DepartureCause::Unknown);
    assert_eq!(view.versions(), [version(ME, 5, 1)]);
}

#[test]
fn a_digest_that_nobody_refreshes_expires() {
    let mut view = View::new(ME);
    view.apply(s(0), digest(peer(1), 5, 1));
    view.connected(s(0), peer(2), BootId(5));
    view.apply(s(0), digest(peer(2), 5, 1));
    view.apply(s(0), digest(peer(3), 5, 1));
    let late = DIGEST_LIFETIME + s(1);
    assert!(view.confirm(late, version(peer(3), 5, 1)));
    assert!(!view.confirm(late, version(peer(3), 5, 2)), "not the one that is held");
    view.expire(late);
    assert!(view.peer(peer(1)).is_none());
    assert_eq!(view.peer(peer(2)).unwrap().digest, None, "connected, but silent");
    assert!(view.peer(peer(3)).unwrap().digest.is_some());
}

#[test]
fn the_live_view_is_we_and_those_connected_to_us() {
    let mut view = View::new(ME);
    view.connected(s(0), peer(1), BootId(5));
    view.apply(s(0), digest(peer(1), 5, 1));
    view.apply(s(0), digest(peer(2), 5, 1));
    view.connected(s(0), peer(3), BootId(5));
    view.apply(s(0), Digest { state: PeerState::Busy, ..digest(peer(3), 5, 1) });
    let live = view.candidates(s(0));
    let remaining: Vec<_> = live.iter().map(|c| (c.peer, c.remaining_s > 0.0)).collect();
    assert_eq!(remaining, [(ME, false), (peer(1), true), (peer(3), false)]);
    let of_one = live[1].remaining_s;
    assert!((of_one / 600.0 - 1.0).abs() < 0.05, "{of_one}");
}

#[test]
fn our_own_measurement_comes_before_what_digests_state() {
    let mut view = View::new(ME);
    let pair = |peer, bytes_per_s| PairRate { peer, bytes_per_s, rtt_us: 9 };
    view.apply(s(0), Digest { pairs: vec![pair(ME, 100), pair(peer(2), 200)], ..digest(peer(1), 5, 1) });
    let stated = |bytes_per_s| Some(Link { bytes_per_s: Some(bytes_per_s), rtt_us: 9 });
    assert_eq!(view.link_between(ME, peer(1)), stated(100));
    assert_eq!(view.link_between(peer(2), peer(1)), stated(200), "as the other end states it");
    assert_eq!(view.link_between(peer(2), peer(3)), None);
    view.link(peer(1), Some(300), 7);
    let measured = Some(Link { bytes_per_s: Some(300), rtt_us: 7 });
    assert_eq!(view.link_between(ME, peer(1)), measured);
    assert_eq!(view.link_between(peer(1), ME), measured);
    view.departed(s(1), peer(1), DepartureCause::Sleep);
    assert_eq!(view.link_to(peer(1)), measured, "it will be true when the peer is back");
}

#[test]
fn a_view_is_bounded_and_keeps_its_neighbours() {
    let mut view = View::new(ME);
    view.connected(s(0), peer(0), BootId(1));
    for n in 1..3 * MAX_PEERS as u16 {
        assert_eq!(view.apply(s(u64::from(n)), digest(peer(n), 1, 1)), Applied::Newer);
    }
    assert_eq!(view.peers().count(), MAX_PEERS);
    assert!(view.peer(peer(0)).is_some(), "connected to us");
    assert!(view.peer(peer(1)).is_none(), "heard longest ago");
    for n in 0..3 * MAX_PEERS as u16 {
        view.connected(s(1), peer(n), BootId(1));
        view.departed(s(u64::from(n)), peer(n), DepartureCause::Unknown);
    }
    let remembered = (0..3 * MAX_PEERS as u16).filter(|n| view.departure(peer(*n)).is_some()).count();
    assert_eq!(remembered, MAX_PEERS);
}

#[test]
fn a_view_full_of_neighbours_takes_no_stranger() {
    let mut view = View::new(ME);
    for n in 0..MAX_PEERS as u16 {
        view.connected(s(0), peer(n), BootId(1));
    }
    assert_eq!(view.apply(s(0), digest(peer(9999), 1, 1)), Applied::Full);
}

/// A digest with a signature that nobody checks here.
fn signed(digest: &Digest) -> SignedDigest {
    SignedDigest::sign(digest, |_| [0; 64]).unwrap()
}

#[test]
fn anti_entropy_gives_what_the_other_lacks_and_asks_for_what_we_lack() {
    let mut view = View::new(ME);
    let own = digest(ME, 5, 7);
    view.state_own(s(0), own.clone(), Some(signed(&own)));
    view.apply(s(0), digest(peer(1), 5, 3));
    assert_eq!(view.lacking_in(&[]), [signed(&own)], "what was never signed is not passed on");
    assert_eq!(view.lacking_in(&[version(ME, 5, 7)]), []);
    assert_eq!(view.lacking_in(&[version(ME, 5, 6)]), [signed(&own)]);
    assert!(view.lacks_from(&[version(peer(1), 5, 4)]));
    assert!(view.lacks_from(&[version(peer(2), 1, 1)]));
    assert!(!view.lacks_from(&[version(peer(1), 5, 3), version(ME, 9, 9)]));
    view.departed(s(1), peer(1), DepartureCause::Crash);
    assert!(!view.lacks_from(&[version(peer(1), 5, 9)]), "we would not believe it");
}

#[test]
fn a_digest_with_a_bad_signature_is_not_heard() {
    let mut view = View::new(ME);
    assert!(view.hear(s(0), signed(&digest(peer(1), 1, 1))).is_err());
    assert_eq!(view.peers().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// Whatever order gossip takes, everybody who heard all of it believes the same.
    #[test]
    fn the_order_of_gossip_does_not_matter(
        versions in proptest::collection::vec((1_u16..4, 1_u64..4, 1_u64..5), 1..30),
        turn in 0_usize..30,
    ) {
        let digests: Vec<Digest> = versions.iter().map(|(n, boot, sequence)| digest(peer(*n), *boot, *sequence)).collect();
        let mut turned = digests.clone();
        turned.rotate_left(turn % digests.len());
        let hear = |digests: Vec<Digest>| {
            let mut view = View::new(ME);
            for digest in digests {
                view.apply(s(0), digest);
            }
            view.versions()
        };
        prop_assert_eq!(hear(digests.clone()), hear(turned));
        prop_assert_eq!(hear(digests.clone()), hear(digests.into_iter().rev().collect()));
    }

    /// A departed life stays dead until the peer connects or boots anew, whatever is gossiped.
    #[test]
    fn no_gossip_revives_a_life_that_departed(
        steps in proptest::collection::vec((0_u8..3, 1_u64..4, 1_u64..5), 1..40),
    ) {
        let mut view = View::new(ME);
        let mut dead = 0;
        for (step, boot, sequence) in steps {
            match step {
                0 => {
                    let applied = view.apply(s(0), digest(peer(1), boot, sequence));
                    prop_assert_eq!(applied == Applied::Departed, boot <= dead);
                    dead = if applied == Applied::Newer { 0 } else { dead };
                }
                1 => {
                    view.connected(s(0), peer(1), BootId(boot));
                    dead = 0;
                }
                _ => {
                    dead = view.peer(peer(1)).map_or(dead, |known| known.boot.0);
                    view.departed(s(0), peer(1), DepartureCause::Unknown);
                }
            }
        }
    }
}
