//! The one destination that gets ready to take a request over: what it has, what it owes, how long it may be silent.

use core::time::Duration;

use idlewild_protocol::{DepartureCause, JobFailure, PeerId, Plan, Way};

use super::deadline::excused_wait;
use crate::Now;
use crate::ownership::{Limits, LossReason, TokenLog};

/// Names a preparation of a request: its stream, as an epoch names the stream of an assignment. Counted by the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Preparation(pub u32);

/// How far a destination is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StandbyStage {
    /// It catches up; nothing was said of what comes then.
    Preparing,
    /// It keeps up.
    Holding,
    /// It keeps what it has; ids are not forwarded.
    Paused,
    /// The source has been told to stop after this index.
    Committing {
        /// Index of the source's last token.
        stop_after: u32,
    },
}

/// The destination as a coordinator's next decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StandbyReport {
    /// Which peer.
    pub destination: PeerId,
    /// How it gets the context.
    pub way: Way,
    /// How far it is.
    pub stage: StandbyStage,
    /// Tokens of the context that it holds, by its own last word.
    pub held_tokens: u32,
    /// Tokens of the log that it does not hold.
    pub lag_tokens: u32,
}

/// What the stream of a preparation brought.
#[derive(Debug, Clone, PartialEq)]
pub enum StandbyNews {
    /// It holds so many tokens of the context, those of the prompt included.
    Progress {
        /// Tokens.
        held_tokens: u32,
    },
    /// It holds nothing yet, and is at it: a model is being loaded.
    Alive,
    /// It cannot go on.
    Failed(JobFailure),
    /// Its own session ends.
    Leaving(DepartureCause),
    /// The stream is no more, or was never opened.
    Lost(LossReason),
}

/// Why a preparation came to nothing. The request goes on where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// The coordinator let it go, or wants another destination.
    #[error("released")]
    Released,
    /// The request ended first.
    #[error("the request ended")]
    RequestEnded,
    /// The destination cannot.
    #[error(transparent)]
    Failed(JobFailure),
    /// The destination's own session ends.
    #[error("said goodbye ({0})")]
    Leaving(DepartureCause),
    /// The destination is gone.
    #[error(transparent)]
    Lost(LossReason),
    /// It owed a sign of life and gave none.
    #[error("showed no sign of life")]
    Silent,
    /// Signs of life, but not ready within the bound.
    #[error("took too long")]
    Endless,
    /// It claims to hold tokens that nobody has sent it.
    #[error("claims tokens that do not exist")]
    Faulty,
}

/// It claims tokens that it was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overclaimed;

/// One preparation at its origin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standby {
    pub(super) preparation: Preparation,
    pub(super) destination: PeerId,
    pub(super) stage: StandbyStage,
    /// The stage to which an aborted commit goes back.
    before_commit: StandbyStage,
    /// Ids of the answer that were sent.
    pub(super) forwarded: u32,
    pub(super) held_tokens: u32,
    /// It held all that it had been sent, once. From then on it keeps up, or is silent.
    has_caught_up: bool,
    way: Way,
    /// The plan of its latest step, with the figures that decided.
    pub(super) plan: Plan,
    began: Now,
    last_sign: Now,
    /// Wait before its first sign of life that the proposal named (a model to load).
    excused: Duration,
    /// When the source is not waited for any longer; while committing.
    pub(super) stop_by: Option<Now>,
}

impl Standby {
    pub(super) fn new(
        now: Now,
        preparation: Preparation,
        destination: PeerId,
        way: Way,
        forwarded: u32,
        plan: Plan,
    ) -> Self {
        let wait_s = plan.terms.of(destination).map_or(0.0, |weighed| weighed.terms.wait_s);
        let excused = excused_wait(wait_s);
        Self {
            preparation,
            destination,
            stage: StandbyStage::Preparing,
            before_commit: StandbyStage::Preparing,
            forwarded,
            held_tokens: 0,
            has_caught_up: false,
            way,
            plan,
            began: now,
            last_sign: now,
            excused,
            stop_by: None,
        }
    }

    pub(super) fn report(&self, log: &TokenLog) -> StandbyReport {
        let Self { destination, way, stage, held_tokens, .. } = *self;
        let lag_tokens = log.context_tokens().saturating_sub(held_tokens);
        StandbyReport { destination, way, stage, held_tokens, lag_tokens }
    }

    /// Whether it holds nothing yet, and pulls nothing.
    pub(super) fn makes_all(&self) -> bool {
        self.held_tokens == 0 && self.way.part().is_none()
    }

    pub(super) fn is_committing(&self) -> bool {
        matches!(self.stage, StandbyStage::Committing { .. })
    }

    pub(super) fn commit(&mut self, stop_after: u32, stop_by: Now, plan: Plan) {
        self.before_commit = self.stage;
        self.stage = StandbyStage::Committing { stop_after };
        self.stop_by = Some(stop_by);
        self.plan = plan;
    }

    pub(super) fn abort(&mut self) {
        self.stage = self.before_commit;
        self.stop_by = None;
    }

    /// Its word, and whether it is news: what it holds never shrinks, and to say the same again says nothing. An error where
    /// it claims more than `sent_tokens`.
    pub(super) fn progress(&mut self, now: Now, held_tokens: u32, sent_tokens: u32) -> Result<bool, Overclaimed> {
        if held_tokens > sent_tokens {
            return Err(Overclaimed);
        }
        let is_news = held_tokens > self.held_tokens;
        if is_news {
            self.held_tokens = held_tokens;
            self.last_sign = now;
            self.excused = Duration::ZERO;
        }
        self.has_caught_up |= held_tokens == sent_tokens;
        Ok(is_news)
    }

    /// A sign of life. Only until it holds something: from then on, what counts is that it holds more.
    pub(super) fn alive(&mut self, now: Now) {
        if self.held_tokens == 0 {
            self.last_sign = now;
        }
    }

    /// A debt that begins now is not overdue at once.
    pub(super) fn owe_from(&mut self, now: Now) {
        self.last_sign = now;
    }

    /// When it is given up, and why; never while it owes nothing. `sent_tokens`: of the context, the prompt included.
    pub(super) fn deadline(&self, limits: &Limits, sent_tokens: u32) -> Option<(Now, Dropped)> {
        if self.stage == StandbyStage::Paused || self.held_tokens >= sent_tokens {
            return None;
        }
        let silent = (self.last_sign + self.excused + limits.standby_silence, Dropped::Silent);
        let endless = (self.began + limits.preparation, Dropped::Endless);
        let is_first = self.stage == StandbyStage::Preparing && !self.has_caught_up && endless.0 < silent.0;
        Some(if is_first { endless } else { silent })
    }
}
