//! Who may be here: certificates that go back to the swarm's key, and tickets that are traded for one.

use core::fmt;
use core::str::FromStr;

use bincode::{Decode, Encode};
use data_encoding::BASE32_NOPAD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::{Message, PeerId, SwarmId};

/// Whether `signature` over `message` is of `key`. Strict: no malleable signature, no weak key.
pub fn verify_signature(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Submits and works.
    Member,
    /// Submits, works, and signs certificates of plain members.
    MayInvite,
}

impl Role {
    /// Whether a member with this role may sign a certificate of `role`. The swarm's key may sign any.
    fn may_issue(self, role: Self) -> bool {
        self == Self::MayInvite && role == Self::Member
    }
}

/// Why a certificate or a ticket does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// It is of another swarm.
    #[error("it belongs to another swarm")]
    OtherSwarm,
    /// It names another peer.
    #[error("it was issued to another peer")]
    OtherPeer,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// A signature is wrong, or the chain does not reach the swarm's key.
    #[error("its signature does not go back to the swarm's key")]
    BadSignature,
    /// An issuer in the chain may not invite, or passed on the right to.
    #[error("its issuer may not invite")]
    IssuerMayNotInvite,
    /// The text of a ticket is not one.
    #[error("not a ticket (expected one line that starts with {TICKET_PREFIX})")]
    NotATicket,
}

/// Says that a peer is a member. Signed by the swarm's key or by a member with the invite right.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Certificate {
    /// The swarm.
    pub swarm: SwarmId,
    /// The member.
    pub peer: PeerId,
    /// What it may do.
    pub role: Role,
    /// Seconds since 1970 after which it does not count; compared with the reader's own clock.
    pub not_after_s: u64,
    /// Over all of the above.
    pub signature: [u8; 64],
}

/// Keeps a signature over a certificate from being one over anything else.
const CERTIFICATE_DOMAIN: &[u8] = b"idlewild/certificate/1\0";

impl Certificate {
    /// A certificate signed with `sign`, the swarm's key or an inviting member's.
    pub fn issue(
        swarm: SwarmId,
        peer: PeerId,
        role: Role,
        not_after_s: u64,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) -> Self {
        let signature = sign(&signed_bytes(swarm, peer, role, not_after_s));
        Self { swarm, peer, role, not_after_s, signature }
    }

    fn is_signed_by(&self, key: &[u8; 32]) -> bool {
        verify_signature(key, &signed_bytes(self.swarm, self.peer, self.role, self.not_after_s), &self.signature)
    }
}

fn signed_bytes(swarm: SwarmId, peer: PeerId, role: Role, not_after_s: u64) -> Vec<u8> {
    let role: u8 = match role {
        Role::Member => 0,
        Role::MayInvite => 1,
    };
    [CERTIFICATE_DOMAIN, &swarm.0, &peer.0, &[role], &not_after_s.to_le_bytes()].concat()
}

/// A member's certificate and, where a member signed it, that member's: the last one is signed by the swarm's key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CertificateChain(pub Vec<Certificate>);

/// The member, who invited it, and no further: an invited peer may not pass the invite right on.
const MAX_CHAIN: usize = 2;

impl CertificateChain {
    /// Checks that `peer` is a member of `swarm` at `now_s` (seconds since 1970); gives its role.
    pub fn verify(&self, swarm: SwarmId, peer: PeerId, now_s: u64) -> Result<Role, MemberError> {
        let leaf = self.0.first().ok_or(MemberError::BadSignature)?;
        if leaf.peer != peer {
            return Err(MemberError::OtherPeer);
        }
        if self.0.len() > MAX_CHAIN {
            return Err(MemberError::BadSignature);
        }
        for (at, certificate) in self.0.iter().enumerate() {
            if certificate.swarm != swarm {
                return Err(MemberError::OtherSwarm);
            }
            if certificate.not_after_s < now_s {
                return Err(MemberError::Expired);
            }
            let issuer = self.0.get(at + 1);
            if issuer.is_some_and(|issuer| !issuer.role.may_issue(certificate.role)) {
                return Err(MemberError::IssuerMayNotInvite);
            }
            let key = issuer.map_or(swarm.0, |issuer| issuer.peer.0);
            if !certificate.is_signed_by(&key) {
                return Err(MemberError::BadSignature);
            }
        }
        Ok(leaf.role)
    }
}

impl Message for CertificateChain {
    const MAX_BYTES: usize = 1024;

    fn is_valid(&self) -> bool {
        (1..=MAX_CHAIN).contains(&self.0.len())
    }
}

/// Names a ticket without giving its secret away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct TicketId(pub [u8; 8]);

/// What whoever holds a ticket knows. Never printed by `Debug`, never logged.
#[derive(Clone, Eq, Encode, Decode)]
pub struct TicketSecret(pub [u8; 32]);

/// In constant time.
impl PartialEq for TicketSecret {
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret(..)")
    }
}

impl TicketSecret {
    /// Proof of knowing the secret, bound to this one exchange: BLAKE3 keyed with the secret over `context`.
    pub fn proof(&self, context: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.0, context).as_bytes()
    }

    /// Compares in constant time.
    pub fn proves(&self, context: &[u8], proof: &[u8; 32]) -> bool {
        blake3::keyed_hash(&self.0, context) == blake3::Hash::from_bytes(*proof)
    }
}

/// An invitation: short-lived, good for one peer, redeemed with the peer that issued it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Ticket {
    /// The swarm.
    pub swarm: SwarmId,
    /// Who issued it and must be asked to redeem it.
    pub issuer: PeerId,
    /// Where the issuer listens, as multiaddresses (at most [`MAX_TICKET_ADDRESSES`]).
    pub addresses: Vec<String>,
    /// Which ticket.
    pub id: TicketId,
    /// The secret.
    pub secret: TicketSecret,
    /// Seconds since 1970 after which it does not count.
    pub not_after_s: u64,
}

/// What a ticket's text starts with.
pub const TICKET_PREFIX: &str = "idlewild1";

/// Addresses that a ticket may name.
pub const MAX_TICKET_ADDRESSES: usize = 8;

/// Bytes of a ticket's checksum, the first of its body's BLAKE3: a typo passes once in 4 billion.
const CHECK_BYTES: usize = 4;

/// Characters of the longest ticket: 8 for each 5 bytes of body and checksum. Longer text is not even decoded.
const MAX_TICKET_CHARS: usize = TICKET_PREFIX.len() + (Ticket::MAX_BYTES + CHECK_BYTES).div_ceil(5) * 8;

impl Message for Ticket {
    const MAX_BYTES: usize = 2048;

    fn is_valid(&self) -> bool {
        self.addresses.len() <= MAX_TICKET_ADDRESSES
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.to_bytes().map_err(|_| fmt::Error)?;
        let check = blake3::hash(&bytes);
        let text = BASE32_NOPAD.encode(&[&bytes, &check.as_bytes()[..CHECK_BYTES]].concat()).to_ascii_lowercase();
        write!(f, "{TICKET_PREFIX}{text}")
    }
}

impl FromStr for Ticket {
    type Err = MemberError;

    fn from_str(text: &str) -> Result<Self, MemberError> {
        let text = text.trim();
        if text.len() > MAX_TICKET_CHARS {
            return Err(MemberError::NotATicket);
        }
        let text = text.strip_prefix(TICKET_PREFIX).ok_or(MemberError::NotATicket)?;
        let bytes = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).map_err(|_| MemberError::NotATicket)?;
        let (body, check) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(MemberError::NotATicket)?;
        if blake3::hash(body).as_bytes()[..CHECK_BYTES] != check[..] {
            return Err(MemberError::NotATicket);
        }
        Self::from_bytes(body).map_err(|_| MemberError::NotATicket)
    }
}
