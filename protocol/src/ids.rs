//! Names of things: peers, swarms, requests, models, boots, epochs, terms, tokens.

use core::fmt;
use core::str::FromStr;

use bincode::{Decode, Encode};
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An id's text does not have the form that this kind of id is printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A peer id is base58 of an Ed25519 key's identity multihash: it starts with `12D3KooW`.
    #[error("not a peer id (expected text like 12D3KooW...)")]
    Peer,
    /// A swarm id is base58 of 32 bytes.
    #[error("not a swarm id (expected base58 of 32 bytes)")]
    Swarm,
    /// A request id is `req-` and 26 characters of base32.
    #[error("not a request id (expected req- and 26 letters or digits)")]
    Request,
    /// A model id is 64 hexadecimal digits: the SHA-256 of the file.
    #[error("not a model id (expected 64 hexadecimal digits, the sha256 of the file)")]
    Model,
}

/// What an Ed25519 key looks like as a libp2p identity multihash: code 0, length 36, then the protobuf header of the key.
const PEER_MULTIHASH_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// How many of the last characters tell peers apart in a log or a table.
const SHORT_CHARS: usize = 8;

/// A running agent: its Ed25519 public key. Prints as libp2p's peer id of that key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct PeerId(pub [u8; 32]);

impl PeerId {
    /// The bytes of libp2p's multihash for this key (38 bytes).
    pub fn to_multihash(self) -> [u8; 38] {
        let mut bytes = [0; 38];
        bytes[..6].copy_from_slice(&PEER_MULTIHASH_PREFIX);
        bytes[6..].copy_from_slice(&self.0);
        bytes
    }

    /// The key in a libp2p multihash; none where it is not an inlined Ed25519 key.
    pub fn from_multihash(bytes: &[u8]) -> Option<Self> {
        let key = bytes.strip_prefix(&PEER_MULTIHASH_PREFIX)?;
        Some(Self(key.try_into().ok()?))
    }

    /// The last eight characters of its text: enough for a table, not for an address.
    pub fn short(self) -> String {
        let text = self.to_string();
        text[text.len() - SHORT_CHARS..].to_owned()
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.to_multihash()).into_string())
    }
}

impl FromStr for PeerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; 38];
        match bs58::decode(text).onto(&mut bytes) {
            Ok(38) => Self::from_multihash(&bytes).ok_or(IdError::Peer),
            Ok(_) | Err(_) => Err(IdError::Peer),
        }
    }
}

/// A swarm: the Ed25519 public key that its certificates go back to. Not secret among members, never told to strangers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct SwarmId(pub [u8; 32]);

impl fmt::Display for SwarmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.0).into_string())
    }
}

impl FromStr for SwarmId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; 32];
        match bs58::decode(text).onto(&mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            Ok(_) | Err(_) => Err(IdError::Swarm),
        }
    }
}

/// One generation, named by its origin at random (128 bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct RequestId(pub [u8; 16]);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req-{}", BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl FromStr for RequestId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix("req-").ok_or(IdError::Request)?;
        let bytes = BASE32_NOPAD.decode(digits.to_ascii_uppercase().as_bytes()).map_err(|_| IdError::Request)?;
        Ok(Self(bytes.try_into().map_err(|_| IdError::Request)?))
    }
}

/// A model: the SHA-256 of its GGUF file. Two files under one name are two models.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct ModelId(pub [u8; 32]);

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for ModelId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes = HEXLOWER.decode(text.to_ascii_lowercase().as_bytes()).map_err(|_| IdError::Model)?;
        Ok(Self(bytes.try_into().map_err(|_| IdError::Model)?))
    }
}

/// Ids read as their text in a log, in JSON and in a debugger alike.
macro_rules! text_form {
    ($($id:ty),+) => {$(
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
text_form!(PeerId, SwarmId, RequestId, ModelId);

/// Numbers with a meaning of their own.
macro_rules! number {
    ($(#[$doc:meta])+ $name:ident($inner:ty)) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// One life of an agent process. A later boot has a greater number (seconds since 1970 when it began, at least one
    /// more than the last one on disk), so that a restarted peer's digests replace its old ones.
    BootId(u64)
}
number! {
    /// The number of an assignment of a request to a worker. Raised only by the origin.
    Epoch(u32)
}
number! {
    /// The number of an election. A higher term always wins.
    Term(u64)
}
number! {
    /// A token of a model's vocabulary.
    TokenId(u32)
}

impl Epoch {
    /// The next assignment's number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Term {
    /// The next election's number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
