//! What happens to frames on the way between a host and the switch.

use std::time::Duration;

/// One port's path, the same in both directions. A frame crosses two: its sender's and its receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// One way.
    pub delay: Duration,
    /// Up to this much more, drawn for each frame; frames are not reordered by it.
    pub jitter: Duration,
    /// Frames lost of a million.
    pub loss_ppm: u32,
    /// Bytes a second; 0 is no limit.
    pub bytes_per_s: u64,
}

impl Path {
    /// A path that only takes time.
    pub fn delayed(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// How long a frame occupies the wire.
    pub(super) fn occupies(&self, frame_bytes: usize) -> Duration {
        match self.bytes_per_s {
            0 => Duration::ZERO,
            rate => Duration::from_nanos((frame_bytes as u64).saturating_mul(1_000_000_000) / rate),
        }
    }
}
