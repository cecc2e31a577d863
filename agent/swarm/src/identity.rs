//! Who a peer is: an Ed25519 key. Its public half is its [`PeerId`], for libp2p and for certificates alike.

use core::fmt;

use ed25519_dalek::{Signer, SigningKey};
use idlewild_protocol::PeerId;
use libp2p::identity::Keypair;
use rand::Rng;

/// A peer's secret key. Never printed by `Debug`, never logged.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.peer_id())
    }
}

impl Identity {
    /// A new identity from the system's randomness.
    pub fn generate() -> Self {
        Self::from_seed(rand::rng().random())
    }

    /// The identity that a seed names: the 32 bytes that are kept on disk.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self { key: SigningKey::from_bytes(&seed) }
    }

    /// The seed, to be kept where only its user can read it (mode 0600).
    pub fn seed(&self) -> [u8; 32] {
        self.key.to_bytes()
    }

    /// The public key.
    pub fn peer_id(&self) -> PeerId {
        PeerId(self.key.verifying_key().to_bytes())
    }

    /// Signs a message; [`idlewild_protocol::verify_signature`] checks it.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }

    /// The same key as libp2p wants it.
    pub(crate) fn keypair(&self) -> Option<Keypair> {
        Keypair::ed25519_from_bytes(self.seed()).ok()
    }
}

/// libp2p's form of a peer's id; none where the 32 bytes are no key.
pub(crate) fn to_libp2p(peer: PeerId) -> Option<libp2p::PeerId> {
    libp2p::PeerId::from_bytes(&peer.to_multihash()).ok()
}

/// Our form of libp2p's; none for a key that is not Ed25519 (no peer of ours has one).
pub(crate) fn from_libp2p(peer: libp2p::PeerId) -> Option<PeerId> {
    PeerId::from_multihash(&peer.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_id_is_the_same_peer_for_libp2p() {
        let identity = Identity::from_seed([7; 32]);
        let theirs = identity.keypair().unwrap().public().to_peer_id();
        assert_eq!(theirs.to_string(), identity.peer_id().to_string());
        assert_eq!(to_libp2p(identity.peer_id()), Some(theirs));
        assert_eq!(from_libp2p(theirs), Some(identity.peer_id()));
    }

    #[test]
    fn a_secret_is_not_printed() {
        let printed = format!("{:?}", Identity::from_seed([7; 32]));
        assert!(printed.starts_with("Identity(12D3KooW"), "{printed}");
        assert!(!printed.contains("0707") && !printed.contains("7, 7"), "{printed}");
    }
}
