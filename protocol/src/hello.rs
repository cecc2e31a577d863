//! The first exchange on every connection; nothing else is served before it succeeds.
//!
//! ```text
//! dialer   --Hello-->       listener      a nonce, versions, and a tag that only those who know the swarm can make
//! dialer   <--Hello--       listener
//! dialer   --Credential-->  listener      certificate, or proof of a ticket
//! dialer   <--HelloReply--  listener      listener's own certificate (and a newcomer's), or a refusal
//! ```
//!
//! The connection itself has proved both peer ids (TLS or Noise). A certificate names its peer, so that a copied one is
//! of no use; what the nonces bind is the ticket's proof. The swarm's id never travels before the other side has shown
//! that it knows it.

use bincode::de::Decoder;
use bincode::error::DecodeError;
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{BootId, CertificateChain, Message, PeerId, Protocol, SwarmId, TicketId, VersionRange};

/// What both sides say first.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub struct Hello {
    /// Drawn for this connection.
    pub nonce: [u8; 32],
    /// [`Hello::tag_of`] the swarm and the nonce.
    pub swarm_tag: [u8; 32],
    /// Which life of the sender's process.
    pub boot: BootId,
    /// What it speaks, in the order of [`Protocol::ALL`]. A later build may name protocols that this one does not know:
    /// they are skipped when read.
    pub versions: Vec<(Protocol, VersionRange)>,
}

/// Protocols that a hello may name: what there are, and room for those of later builds.
const MAX_PROTOCOLS: usize = 16;

/// By hand, so that a protocol that only later builds know is skipped and not an unknown variant.
impl<C> Decode<C> for Hello {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let (nonce, swarm_tag, boot) = Decode::decode(decoder)?;
        let named: Vec<(u32, VersionRange)> = Decode::decode(decoder)?;
        if named.len() > MAX_PROTOCOLS {
            return Err(DecodeError::LimitExceeded);
        }
        let versions =
            named.into_iter().filter_map(|(code, range)| Some((Protocol::from_code(code)?, range))).collect();
        Ok(Self { nonce, swarm_tag, boot, versions })
    }
}

impl Hello {
    /// Shows knowledge of `swarm` to those who know it, and nothing to others.
    pub fn tag_of(swarm: SwarmId, nonce: &[u8; 32]) -> [u8; 32] {
        *blake3::keyed_hash(&swarm.0, nonce).as_bytes()
    }

    /// Whether the sender knows `swarm`.
    pub fn knows(&self, swarm: SwarmId) -> bool {
        blake3::Hash::from_bytes(self.swarm_tag) == blake3::Hash::from_bytes(Self::tag_of(swarm, &self.nonce))
    }

    /// What a ticket's proof is made over: both peers and both nonces.
    pub fn ticket_context(
        newcomer: PeerId,
        issuer: PeerId,
        newcomer_nonce: &[u8; 32],
        issuer_nonce: &[u8; 32],
    ) -> Vec<u8> {
        [b"idlewild/ticket/1\0".as_slice(), &newcomer.0, &issuer.0, newcomer_nonce, issuer_nonce].concat()
    }
}

impl Message for Hello {
    const MAX_BYTES: usize = 256;

    fn is_valid(&self) -> bool {
        self.versions.len() <= MAX_PROTOCOLS
    }
}

/// What the dialer shows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Credential {
    /// It is a member.
    Member(CertificateChain),
    /// It holds a ticket that the listener issued.
    Newcomer {
        /// Which ticket.
        ticket: TicketId,
        /// [`crate::TicketSecret::proof`] over [`Hello::ticket_context`].
        proof: [u8; 32],
    },
}

impl Message for Credential {
    const MAX_BYTES: usize = CertificateChain::MAX_BYTES + 16;

    fn is_valid(&self) -> bool {
        match self {
            Self::Member(chain) => chain.is_valid(),
            Self::Newcomer { .. } => true,
        }
    }
}

/// What the listener answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum HelloReply {
    /// Come in: this is who I am.
    Welcome {
        /// The listener's certificate.
        listener: CertificateChain,
        /// The certificate that a newcomer's ticket bought.
        newcomer: Option<CertificateChain>,
    },
    /// No, and why. The connection is closed after it.
    Refused(Refusal),
}

impl Message for HelloReply {
    const MAX_BYTES: usize = 2 * CertificateChain::MAX_BYTES + 16;

    fn is_valid(&self) -> bool {
        match self {
            Self::Welcome { listener, newcomer } => {
                listener.is_valid() && newcomer.as_ref().is_none_or(CertificateChain::is_valid)
            }
            Self::Refused(_) => true,
        }
    }
}

/// Why a peer is not let in. Says as much as its user needs and nothing about the swarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It does not know the swarm.
    #[error("it belongs to another swarm")]
    OtherSwarm,
    /// Its certificate is not one of this swarm.
    #[error("its certificate is not valid here")]
    BadCertificate,
    /// Its certificate has run out.
    #[error("its certificate has expired")]
    CertificateExpired,
    /// The ticket is unknown here: of another issuer, or made up.
    #[error("the ticket is not known to this peer; ask its issuer for a new one")]
    TicketUnknown,
    /// The ticket was used.
    #[error("the ticket has been used; ask for a new one")]
    TicketUsed,
    /// The ticket's time is over.
    #[error("the ticket has expired; ask for a new one")]
    TicketExpired,
    /// No version of a protocol is spoken by both.
    #[error("no common protocol version; upgrade the older of the two")]
    NoCommonVersion,
    /// The same identity is here already, from another process: a cloned data directory.
    #[error("another agent with the same identity is connected; was its data directory copied?")]
    Clone,
    /// Too many peers, or too many attempts.
    #[error("too busy to let another peer in; it will be tried again")]
    Busy,
}
