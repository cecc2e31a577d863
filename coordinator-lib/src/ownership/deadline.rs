//! How long a worker may be silent.

use core::time::Duration;

use crate::Now;
use crate::ownership::{Limits, Silence};

/// Longest wait that a plan may excuse, whatever it says: a coordinator cannot make an origin wait for ever.
const EXCUSED_WAIT_MAX: Duration = Duration::from_mins(2);

/// Doublings of the first-token silence: 3.5 s becomes 112 s at most.
const DOUBLINGS_MAX: u32 = 5;

/// Doublings of the silence between tokens: 3.5 s becomes 28 s at most. A machine that needs longer for a token serves
/// nobody, and a frozen one must not hold a request for minutes.
const TOKEN_DOUBLINGS_MAX: u32 = 3;

/// Twice the wait that a plan names, within bounds.
pub(super) fn excused_wait(plan_wait_s: f64) -> Duration {
    Duration::try_from_secs_f64(2.0 * plan_wait_s).unwrap_or_default().min(EXCUSED_WAIT_MAX)
}

/// Silences that ended earlier assignments of the same request: each doubles what the next worker is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Silences {
    /// Before the first token.
    pub(super) starts: u32,
    /// Between two tokens.
    pub(super) tokens: u32,
}

/// How far an assignment has come, as far as silence is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    /// Told to start; the wait that the plan named may still lie ahead.
    Waiting,
    /// It reads the prompt.
    Reading,
    /// Tokens come.
    Decoding,
}

/// The deadlines of one assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Patience {
    stage: Stage,
    began: Now,
    /// Wait that the plan named.
    excused: Duration,
    /// 1, 2, 4...: how much longer than the limit a silent start may be.
    start_factor: u32,
    /// The same between two tokens.
    token_factor: u32,
    last_sign: Now,
}

impl Patience {
    /// Of an assignment that begins now, after others that were given up for their silence.
    pub(super) fn new(now: Now, plan_wait_s: f64, silences: Silences) -> Self {
        let start_factor = 1 << silences.starts.min(DOUBLINGS_MAX);
        let token_factor = 1 << silences.tokens.min(TOKEN_DOUBLINGS_MAX);
        let excused = excused_wait(plan_wait_s);
        Self { stage: Stage::Waiting, began: now, excused, start_factor, token_factor, last_sign: now }
    }

    /// The worker has shown that it lives; it is at least at `stage`. Once tokens come, only tokens count.
    pub(super) fn sign_of_life(&mut self, now: Now, stage: Stage) {
        if stage == Stage::Decoding || self.stage != Stage::Decoding {
            self.last_sign = now;
            self.stage = self.stage.max(stage);
        }
    }

    /// Forgives the silence so far.
    pub(super) fn renew(&mut self, now: Now) {
        self.last_sign = now;
    }

    /// Whether it has shown nothing but that it lives.
    pub(super) fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Whether tokens have come.
    pub(super) fn is_decoding(&self) -> bool {
        self.stage == Stage::Decoding
    }

    /// When patience ends, and what it is then called.
    pub(super) fn deadline(&self, limits: &Limits) -> (Now, Silence) {
        let silence = match self.stage {
            Stage::Waiting => limits.first_token_silence * self.start_factor + self.excused,
            Stage::Reading => limits.first_token_silence * self.start_factor,
            Stage::Decoding => {
                return (self.last_sign + limits.token_silence * self.token_factor, Silence::BetweenTokens);
            }
        };
        let silent = (self.last_sign + silence, Silence::BeforeFirstToken);
        let endless = (self.began + limits.first_token, Silence::Endless);
        if endless.0 < silent.0 { endless } else { silent }
    }
}
