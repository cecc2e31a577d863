//! What an origin tells the coordinator of a request of its own.

use idlewild_protocol::{Epoch, MAX_EXCLUDED_PEERS, ModelId, PeerId, RequestId};

use crate::cost::{Residual, Way, Work};
use crate::policy::overlapped;

/// One request, as its origin sees it. The origin says it anew when anything but the tokens changes, and every second.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which request.
    pub request: RequestId,
    /// The live assignment. A report of an earlier one is stale.
    pub epoch: Epoch,
    /// Counts the reports of this request, so that the later of two is known.
    pub sequence: u64,
    /// The model.
    pub model: ModelId,
    /// Where it is.
    pub stage: Stage,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of output that exist.
    pub done_tokens: u32,
    /// Quantiles (0.1, 0.3, 0.5, 0.7, 0.9) of the tokens still to come, given those that have come.
    pub residual_tokens: [f64; 5],
    /// Planned moves that it has made.
    pub hops: u32,
    /// Who prepares to take over, if anybody does.
    pub standby: Option<Standby>,
    /// Peers that just failed it; the first [`MAX_EXCLUDED_PEERS`] count.
    pub excluded: Vec<PeerId>,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// In the queue of a worker that has not begun it.
    Queued {
        /// Whose.
        worker: PeerId,
        /// Milliseconds that it waits still, as the worker says.
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
#[derive(Debug, Clone, Copy, PartialEq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandbyState {
    /// It catches up.
    Preparing,
    /// It keeps up.
    Holding,
    /// It keeps what it has, and takes nothing more.
    Paused,
}

impl Standby {
    pub(super) fn as_policy_wants_it(&self) -> overlapped::Standby<PeerId> {
        let Self { peer, way, state, lag_tokens } = *self;
        overlapped::Standby { at: peer, way, lag_tokens, is_paused: state == StandbyState::Paused }
    }
}

impl Report {
    /// Later is greater; of one epoch, what was said last counts.
    pub fn version(&self) -> (Epoch, u64) {
        (self.epoch, self.sequence)
    }

    /// The peer that has it.
    pub fn worker(&self) -> Option<PeerId> {
        match self.stage {
            Stage::Queued { worker, .. } | Stage::Running { worker } => Some(worker),
            Stage::Orphaned => None,
        }
    }

    /// Who may not take it, in bounds.
    pub(super) fn excluded(&self) -> &[PeerId] {
        &self.excluded[..self.excluded.len().min(MAX_EXCLUDED_PEERS)]
    }

    /// R, as far as the quantiles make sense.
    pub(super) fn residual(&self) -> Residual {
        Residual::of(self.residual_tokens)
    }

    /// c: tokens of its context.
    pub(super) fn context_tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.done_tokens)
    }

    /// What the standby holds of its context.
    pub(super) fn held(&self) -> Option<(PeerId, u32)> {
        self.standby.map(|standby| (standby.peer, self.context_tokens().saturating_sub(standby.lag_tokens)))
    }

    fn expected_output_tokens(&self) -> u32 {
        self.done_tokens.saturating_add(self.residual().mean_tokens().round() as u32)
    }

    /// What is left of it where it runs.
    pub(super) fn work_here(&self) -> Work {
        Work::running(self.prompt_tokens, self.expected_output_tokens(), self.done_tokens)
    }

    /// What is left of it where it begins, or begins again: all of its context is prefilled.
    pub(super) fn work_anew(&self) -> Work {
        Work::orphaned(self.prompt_tokens, self.expected_output_tokens(), self.done_tokens)
    }
}
