//! Megabytes beside a message: they follow its frame on the pipe as they are.
//!
//! Inside the frame they are their length only, so that the codec neither copies them nor needs a limit as large.

use core::fmt;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use idlewild_protocol::{MAX_CHUNK_BYTES, Message};

/// Bytes of a chunk, or after decoding the announcement of them until [`Blob::fill`].
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Blob {
    bytes: Vec<u8>,
    /// Bytes that follow the frame.
    announced: u32,
}

impl Blob {
    /// At most [`MAX_CHUNK_BYTES`]; none where there are more.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        let announced = u32::try_from(bytes.len()).ok().filter(|count| *count <= MAX_CHUNK_BYTES)?;
        Some(Self { bytes, announced })
    }

    /// Bytes that follow the frame.
    pub(crate) fn announced(&self) -> usize {
        self.announced as usize
    }

    /// The bytes that followed. Whether they are as many as were announced.
    pub(crate) fn fill(&mut self, bytes: Vec<u8>) -> bool {
        self.bytes = bytes;
        self.bytes.len() == self.announced()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} of {} bytes)", self.bytes.len(), self.announced)
    }
}

impl Encode for Blob {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.announced.encode(encoder)
    }
}

impl<Context> Decode<Context> for Blob {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let announced = u32::decode(decoder)?;
        if announced > MAX_CHUNK_BYTES {
            return Err(DecodeError::LimitExceeded);
        }
        Ok(Self { bytes: Vec::new(), announced })
    }
}

bincode::impl_borrow_decode!(Blob);

/// A message of the pipe, which may have a blob behind its frame.
pub(crate) trait Parcel: Message {
    /// What follows the frame.
    fn blob(&self) -> Option<&Blob>;

    /// The same, to be filled.
    fn blob_mut(&mut self) -> Option<&mut Blob>;
}
