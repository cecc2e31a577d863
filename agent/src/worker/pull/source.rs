//! What a pull needs to know of both its ends.

use std::time::Duration;

use idlewild_engine::WAITING_CHUNKS_BYTES_MAX;
use idlewild_protocol::{ContextOpen, PeerId, PullPart};
use idlewild_swarm::Swarm;

use crate::worker::contexts::Moved;
use crate::worker::holders::Steps;

/// What is pulled, from whom, and how fast we could do without.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Source {
    pub(in crate::worker) swarm: Swarm,
    pub(in crate::worker) holder: PeerId,
    pub(in crate::worker) open: ContextOpen,
    pub(in crate::worker) part: PullPart,
    pub(in crate::worker) kv_bytes_per_token: u32,
    /// Tokens a second that this peer prefills.
    pub(in crate::worker) prefill_tps: f64,
    /// Tokens a second that the link carries, if that is known.
    pub(in crate::worker) kv_tps: Option<f64>,
    /// To the holder and back; nothing where that is not known.
    pub(in crate::worker) round_trip: Duration,
    /// How long the holder's steps take.
    pub(in crate::worker) steps: Steps,
    /// Counts what comes.
    pub(in crate::worker) moved: Moved,
}

impl Source {
    /// Positions that may wait in our engine until those before them are held.
    pub(super) fn waiting_max(&self) -> u32 {
        let positions = WAITING_CHUNKS_BYTES_MAX / u64::from(self.kv_bytes_per_token.max(1));
        u32::try_from(positions).unwrap_or(u32::MAX)
    }
}
