//! Ids print in one form and are read back from it, and only from it.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use idlewild_protocol::{Epoch, IdError, ModelId, PeerId, RequestId, SwarmId, Term};
use proptest::prelude::*;

use crate::samples::peer;

fn check<I: Display + Debug + FromStr<Err = IdError> + PartialEq + serde::Serialize>(id: &I) {
    let text = id.to_string();
    assert_eq!(text.parse::<I>().as_ref(), Ok(id));
    assert_eq!(format!("{id:?}"), text, "Debug is the text too");
}

proptest! {
    #[test]
    fn ids_come_back_from_their_text(bytes in any::<[u8; 32]>(), short in any::<[u8; 16]>()) {
        check(&PeerId(bytes));
        check(&SwarmId(bytes));
        check(&ModelId(bytes));
        check(&RequestId(short));
    }

    #[test]
    fn text_that_is_no_id_is_refused_without_a_panic(text in "\\PC{0,80}") {
        prop_assert_eq!(text.parse::<PeerId>(), Err(IdError::Peer));
        prop_assert_eq!(text.parse::<RequestId>(), Err(IdError::Request));
    }
}

#[test]
fn a_peer_id_reads_as_libp2p_prints_it() {
    // The identity multihash of a 36-byte protobuf key of type Ed25519 always begins so in base58.
    let text = peer(2).to_string();
    assert!(text.starts_with("12D3KooW"), "{text}");
    assert_eq!(text.len(), 52);
    assert!(text.ends_with(&peer(2).short()));
    assert_eq!(PeerId::from_multihash(&peer(2).to_multihash()), Some(peer(2)));
}

#[test]
fn a_multihash_of_another_kind_of_key_is_no_peer() {
    let whole = peer(2).to_multihash();
    assert_eq!(PeerId::from_multihash(&whole[..37]), None);
    assert_eq!(PeerId::from_multihash(&[&whole[..], &[0]].concat()), None);
    let mut sha256 = whole;
    sha256[0] = 0x12;
    assert_eq!(PeerId::from_multihash(&sha256), None);
}

#[test]
fn a_typo_in_an_id_is_named_by_the_kind_of_id() {
    assert_eq!("12D3KooWshort".parse::<PeerId>(), Err(IdError::Peer));
    assert_eq!("0OIl".parse::<SwarmId>(), Err(IdError::Swarm));
    assert_eq!("req-12345".parse::<RequestId>(), Err(IdError::Request));
    assert_eq!("ab".repeat(31).parse::<ModelId>(), Err(IdError::Model));
    assert_eq!("AB".repeat(32).parse::<ModelId>(), Ok(ModelId([0xab; 32])), "case does not matter");
}

#[test]
fn counters_stop_at_their_end_and_do_not_wrap() {
    assert_eq!(Epoch(1).next(), Epoch(2));
    assert_eq!(Epoch(u32::MAX).next(), Epoch(u32::MAX));
    assert_eq!(Term(u64::MAX).next(), Term(u64::MAX));
}
