//! Bytes of messages: bincode 2 in frames of a four-byte length (little endian) and a body.
//!
//! The only module that names bincode's configuration, so that the codec can change in one place. Limits are checked
//! twice: a frame's length before its body is read ([`frame_len`]), and every length inside it before anything is
//! allocated (bincode's limit).

use bincode::config::{self, Config};
use bincode::{Decode, Encode};

/// Bytes before a frame's body: its length, little endian.
pub const FRAME_HEADER_BYTES: usize = 4;

/// A message cannot be written: it is larger than its kind may be. A bug of ours, not of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message of {size} bytes is larger than the {limit} its kind may take")]
pub struct EncodeError {
    /// Bytes that it would take (0 where bincode gave up before it knew).
    pub size: usize,
    /// Bytes that it may take.
    pub limit: usize,
}

/// Bytes are not a message of the kind expected. Small and `Copy`, since a bad peer decides how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame says that it is longer than this kind of message may be.
    #[error("frame of {size} bytes is longer than the {limit} allowed")]
    TooLong {
        /// Bytes announced.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The bytes end too early, name an unknown variant, or hold a length over the limit.
    #[error("malformed message")]
    Malformed,
    /// A whole message, then more bytes.
    #[error("{0} bytes after the end of the message")]
    Trailing(usize),
    /// A field is outside the range that its documentation gives.
    #[error("a field is out of range")]
    OutOfRange,
}

/// A kind of message: its limit, and the check that bincode cannot make.
pub trait Message: Encode + Decode<()> + Sized {
    /// The most bytes that a body of this kind may take.
    const MAX_BYTES: usize;

    /// Whether every field is in the range that its documentation gives (finite floats, list lengths).
    fn is_valid(&self) -> bool {
        true
    }

    /// The body's bytes.
    fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        let bytes =
            bincode::encode_to_vec(self, plain()).map_err(|_| EncodeError { size: 0, limit: Self::MAX_BYTES })?;
        if bytes.len() > Self::MAX_BYTES {
            return Err(EncodeError { size: bytes.len(), limit: Self::MAX_BYTES });
        }
        Ok(bytes)
    }

    /// The message in `bytes`, which must hold it and nothing else.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > Self::MAX_BYTES {
            return Err(DecodeError::TooLong { size: bytes.len(), limit: Self::MAX_BYTES });
        }
        let (message, read): (Self, usize) = if bytes.len() <= SMALL {
            decode(bytes, plain().with_limit::<SMALL>())
        } else {
            decode(bytes, plain().with_limit::<LARGE>())
        }?;
        if read < bytes.len() {
            return Err(DecodeError::Trailing(bytes.len() - read));
        }
        if message.is_valid() { Ok(message) } else { Err(DecodeError::OutOfRange) }
    }
}

/// bincode's limit for bodies of up to 64 KiB: every control message, nearly every other.
const SMALL: usize = 64 * 1024;

/// bincode's limit for the rest: what the largest kind of message may take.
const LARGE: usize = 4 * 1024 * 1024;

fn plain() -> config::Configuration {
    config::standard()
}

fn decode<M: Decode<()>>(bytes: &[u8], config: impl Config) -> Result<(M, usize), DecodeError> {
    bincode::decode_from_slice(bytes, config).map_err(|_| DecodeError::Malformed)
}

/// A whole frame: header and body.
pub fn frame<M: Message>(message: &M) -> Result<Vec<u8>, EncodeError> {
    let body = message.to_bytes()?;
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + body.len());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// The length of the body that follows `header`, if this kind of message may be that long.
pub fn frame_len<M: Message>(header: [u8; FRAME_HEADER_BYTES]) -> Result<usize, DecodeError> {
    let size = u32::from_le_bytes(header) as usize;
    if size > M::MAX_BYTES {
        return Err(DecodeError::TooLong { size, limit: M::MAX_BYTES });
    }
    Ok(size)
}
