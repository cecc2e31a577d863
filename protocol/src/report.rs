//! What an origin tells the coordinator of a request of its own.

use bincode::{Decode, Encode};

use crate::{Epoch, MAX_EXCLUDED_PEERS, ModelId, PeerId, RequestId, Way};

/// One request, as its origin sees it. The origin says it anew when anything but the tokens changes, and every second; it
/// takes about a hundred bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RequestReport {
    /// Which request.
    pub request: RequestId,
    /// The live assignment; of a request that nobody has, the last one. A report of an earlier one is stale.
    pub epoch: Epoch,
    /// Counts the reports of this request, so that the later of two is known.
    pub sequence: u64,
    /// The model.
    pub model: ModelId,
    /// Where it is.
    pub stage: RequestStage,
    /// Tokens of the prompt (estimated before a worker has counted them).
    pub prompt_tokens: u32,
    /// Tokens of output that exist.
    pub done_tokens: u32,
    /// Quantiles (0.1, 0.3, 0.5, 0.7, 0.9) of the tokens still to come, given those that have come.
    pub residual_tokens: [u32; 5],
    /// Planned moves that it has made.
    pub hops: u32,
    /// Who prepares to take over, if anybody does.
    pub standby: Option<Standby>,
    /// Peers that just failed it (at most [`MAX_EXCLUDED_PEERS`]).
    pub excluded: Vec<PeerId>,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum RequestStage {
    /// In the queue of a worker that has not begun it.
    Queued {
        /// Whose.
        worker: PeerId,
        /// Milliseconds that it waits still, as expected.
        wait_ms: u32,
    },
    /// A worker prefills or decodes it.
    Running {
        /// Which.
        worker: PeerId,
    },
    /// Nobody has it: its worker is gone.
    Orphaned,
}

/// The destination of a preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Standby {
    /// Which peer.
    pub peer: PeerId,
    /// How it gets the context.
    pub way: Way,
    /// How far it is.
    pub state: StandbyState,
    /// Tokens of the context that it lacks.
    pub lag_tokens: u32,
}

/// How far a preparation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum StandbyState {
    /// It catches up.
    Preparing,
    /// It keeps up.
    Holding,
    /// It keeps what it has, and takes nothing more.
    Paused,
    /// The source has been told to stop, and then it goes on.
    Committing,
}

impl RequestReport {
    pub(crate) fn is_valid(&self) -> bool {
        self.excluded.len() <= MAX_EXCLUDED_PEERS
    }

    /// Later is greater; of one epoch, what was said last counts.
    pub fn version(&self) -> (Epoch, u64) {
        (self.epoch, self.sequence)
    }

    /// The peer that has it.
    pub fn worker(&self) -> Option<PeerId> {
        match self.stage {
            RequestStage::Queued { worker, .. } | RequestStage::Running { worker } => Some(worker),
            RequestStage::Orphaned => None,
        }
    }

    /// Tokens of its context.
    pub fn context_tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.done_tokens)
    }
}
