//! A context's KV cache on its way from the peer that holds it to the peer that will: pulled, chunk by chunk.
//!
//! ```text
//! destination --BulkRequest::Context{request, model, layout}-->  holder      is it offered to this peer?
//! destination --Pull{from, to}----------------------------->     holder      several may be under way
//! destination <--Chunk(header), raw bytes-------------------     holder      or Refused; in the order of the pulls
//! destination --Received{bytes}----------------------------->    holder      now and then: how the holder knows the delay
//! ```
//!
//! The holder says nothing unasked but that it is too busy, so that what is on the way is bounded by what the destination has
//! asked for. A stream that broke is opened again, and pulls begin where the last whole chunk ended.

use core::fmt;

use bincode::{Decode, Encode};
use data_encoding::HEXLOWER;

use crate::{Message, ModelId, PeerId, RequestId};

/// Bytes of a chunk. One token of the largest models that run at home takes a third of a megabyte.
pub const MAX_CHUNK_BYTES: u32 = 8 * 1024 * 1024;

/// Positions of a chunk.
pub const MAX_CHUNK_TOKENS: u32 = 1024;

/// Positions that a destination lets come together once it keeps up with a source that decodes: so many may be missing when
/// the source stops.
pub const FEED_TOKENS: u32 = 16;

/// What must be equal on two peers for the KV cache of one to mean the same on the other: a hash over layers, heads, sizes,
/// types, sliding window, rotation and the version of the state's format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct LayoutFingerprint(pub [u8; 32]);

impl fmt::Display for LayoutFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for LayoutFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which context a bulk stream is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ContextOpen {
    /// The origin of the request: the same id of another origin is another request.
    pub origin: PeerId,
    /// The request whose context it is. Its origin has told the holder who may have it.
    pub request: RequestId,
    /// The model that made it.
    pub model: ModelId,
    /// The opener's layout: no context is sent to another one.
    pub layout: LayoutFingerprint,
}

/// What the destination asks for, version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ContextRequest {
    /// The positions from `from` up to, not including, `to`.
    Pull {
        /// The first, counted from the beginning of the prompt.
        from: u32,
        /// One after the last; at most [`MAX_CHUNK_TOKENS`] more than `from`.
        to: u32,
    },
    /// So much has come. The holder keeps little more on its way than the link takes, so that tokens which share the link
    /// are not late.
    Received {
        /// Bytes of chunks since the stream began, headers not counted.
        bytes: u64,
    },
}

impl Message for ContextRequest {
    const MAX_BYTES: usize = 16;

    fn is_valid(&self) -> bool {
        match *self {
            Self::Pull { from, to } => is_range(from, to),
            Self::Received { .. } => true,
        }
    }
}

/// What the holder answers to each pull, version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ContextReply {
    /// The chunk; its bytes follow the frame.
    Chunk(ChunkHeader),
    /// It does not come, and why.
    Refused(ContextRefusal),
}

impl Message for ContextReply {
    const MAX_BYTES: usize = 128;

    fn is_valid(&self) -> bool {
        match self {
            Self::Chunk(header) => header.is_valid(),
            Self::Refused(_) => true,
        }
    }
}

/// What a chunk is, so that it can be judged before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChunkHeader {
    /// The model that made it.
    pub model: ModelId,
    /// How it is laid out.
    pub layout: LayoutFingerprint,
    /// Its first position.
    pub from: u32,
    /// One after its last.
    pub to: u32,
    /// Bytes, from 1 to [`MAX_CHUNK_BYTES`].
    pub bytes: u32,
    /// BLAKE3 of them.
    pub hash: [u8; 32],
}

impl ChunkHeader {
    /// Whether every figure is in its range.
    pub fn is_valid(&self) -> bool {
        is_range(self.from, self.to) && (1..=MAX_CHUNK_BYTES).contains(&self.bytes)
    }
}

fn is_range(from: u32, to: u32) -> bool {
    to.checked_sub(from).is_some_and(|count| (1..=MAX_CHUNK_TOKENS).contains(&count))
}

/// Why a chunk does not come. The request itself goes on, and its context can be made from the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, thiserror::Error)]
pub enum ContextRefusal {
    /// It holds no such context, or its origin has not offered it to this peer.
    #[error("no such context is offered to this peer")]
    NotOffered,
    /// Its model or layout is another.
    #[error("its KV cache is laid out otherwise")]
    OtherLayout,
    /// It does not hold these positions (yet).
    #[error("it does not hold these positions")]
    NotHeld,
    /// As many contexts leave it as may.
    #[error("too many contexts are being sent")]
    Busy,
    /// The context, or the engine, is gone.
    #[error("it does not hold the context any more")]
    Gone,
}
