//! Bytes of messages: bincode 2 in frames of a four-byte length (little endian) and a body.
//!
//! The only module that names bincode's configuration, so that the codec can change in one place. Limits are checked
//! twice: a frame's length before its body is read ([`frame_len`]), and every length inside it before anything is
//! allocated (bincode's limit).

use bincode::config::{self, Config};
use bincode::{Decode, Encode};

/// Bytes before a frame's body: its length, little endian.
pub const FRAME_HEADER_BYTES: usize = 4;

/// A message cannot be written. A bug of ours, not of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It takes more bytes than its kind may.
    #[error("message of {size} bytes is larger than the {limit} its kind may take")]
    TooLong {
        /// Bytes that it would take.
        size: usize,
        /// Bytes that it may take.
        limit: usize,
    },
    /// A field is outside the range that its documentation gives: every reader would refuse it.
    #[error("a field is out of range")]
    OutOfRange,
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
    /// Well formed, but not signed by the peer that it names.
    #[error("the signature is not of the peer that the message names")]
    BadSignature,
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
        let mut bytes = Vec::new();
        append(self, &mut bytes)?;
        Ok(bytes)
    }

    /// The message in `bytes`, which must hold it and nothing else.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > Self::MAX_BYTES {
            return Err(DecodeError::TooLong { size: bytes.len(), limit: Self::MAX_BYTES });
        }
        let (message, read): (Self, usize) = decode(bytes)?;
        if read < bytes.len() {
            return Err(DecodeError::Trailing(bytes.len() - read));
        }
        if message.is_valid() { Ok(message) } else { Err(DecodeError::OutOfRange) }
    }
}

/// Bytes of memory that a byte on the wire may turn into: a token id takes 4, and as little as 1 on the wire.
const MEMORY_PER_WIRE_BYTE: usize = 4;

/// Bytes of memory beside that: the fixed fields of the largest message, and the headers of short lists of strings.
const MEMORY_BESIDE: usize = 4 * 1024;

/// bincode's limit is a constant of its type, in bytes of memory claimed: the smallest step that suits the body is used.
const STEPS: [usize; 4] = [8 << 10, 64 << 10, 1 << 20, 9 << 20];

fn plain() -> config::Configuration {
    config::standard()
}

/// Decodes with a limit on memory in proportion to the body, so that a short frame never makes a large allocation.
fn decode<M: Decode<()>>(bytes: &[u8]) -> Result<(M, usize), DecodeError> {
    let needed = bytes.len() * MEMORY_PER_WIRE_BYTE + MEMORY_BESIDE;
    match STEPS.iter().position(|step| needed <= *step) {
        Some(0) => decode_with(bytes, plain().with_limit::<{ STEPS[0] }>()),
        Some(1) => decode_with(bytes, plain().with_limit::<{ STEPS[1] }>()),
        Some(2) => decode_with(bytes, plain().with_limit::<{ STEPS[2] }>()),
        Some(_) => decode_with(bytes, plain().with_limit::<{ STEPS[3] }>()),
        None => Err(DecodeError::TooLong { size: bytes.len(), limit: STEPS[3] / MEMORY_PER_WIRE_BYTE }),
    }
}

fn decode_with<M: Decode<()>>(bytes: &[u8], config: impl Config) -> Result<(M, usize), DecodeError> {
    bincode::decode_from_slice(bytes, config).map_err(|_| DecodeError::Malformed)
}

/// Appends a message's body to `bytes`; gives its length.
fn append<M: Message>(message: &M, bytes: &mut Vec<u8>) -> Result<usize, EncodeError> {
    if !message.is_valid() {
        return Err(EncodeError::OutOfRange);
    }
    let limit = M::MAX_BYTES;
    // Memory takes every byte; bincode's other reasons (a borrowed `RefCell`, a poisoned lock) do not occur in our types.
    let size = bincode::encode_into_std_write(message, bytes, plain()).map_err(|_| EncodeError::OutOfRange)?;
    if size > limit { Err(EncodeError::TooLong { size, limit }) } else { Ok(size) }
}

/// A whole frame: header and body.
pub fn frame<M: Message>(message: &M) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = vec![0; FRAME_HEADER_BYTES];
    let size = append(message, &mut bytes)?;
    bytes[..FRAME_HEADER_BYTES].copy_from_slice(&(size as u32).to_le_bytes());
    Ok(bytes)
}

/// The length of the body that follows `header`, if this kind of message may be that long.
///
/// To be asked before a byte of the body is read or room for it is made.
pub fn frame_len<M: Message>(header: [u8; FRAME_HEADER_BYTES]) -> Result<usize, DecodeError> {
    let size = u32::from_le_bytes(header) as usize;
    if size > M::MAX_BYTES {
        return Err(DecodeError::TooLong { size, limit: M::MAX_BYTES });
    }
    Ok(size)
}
