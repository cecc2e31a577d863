//! What a bulk stream begins with: a probe of the link's rate, or the pulling of a context.
//!
//! ```text
//! asker --Probe{bytes}, bytes-->  other      the other measures how fast they come
//! asker <--Measured, bytes------- other      the asker measures these
//! asker --Measured------------->  other      so that both know both directions
//! ```

use bincode::{Decode, Encode};

use crate::{ContextOpen, Message};

/// The most bytes that a probe may send each way: 17 ms at 1 Gbit/s.
pub const MAX_PROBE_BYTES: u32 = 2 * 1024 * 1024;

/// What the opener of a bulk stream wants, version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum BulkRequest {
    /// This many bytes follow, and as many are to be sent back.
    Probe {
        /// From 1 to [`MAX_PROBE_BYTES`].
        bytes: u32,
    },
    /// Chunks of this context are to be sent back, as they are asked for: see [`crate::ContextRequest`].
    Context(ContextOpen),
}

impl Message for BulkRequest {
    const MAX_BYTES: usize = 128;

    fn is_valid(&self) -> bool {
        match self {
            Self::Probe { bytes } => (1..=MAX_PROBE_BYTES).contains(bytes),
            Self::Context(_) => true,
        }
    }
}

/// What the receiver of a probe's bytes found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Measured {
    /// From the first bytes that came to the last.
    pub bytes_per_s: u64,
}

impl Message for Measured {
    const MAX_BYTES: usize = 16;
}
