//! How long a request waits, and how often it tries.

use core::time::Duration;

/// The bounds of one request. All timers of the machine are here, each with its why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A coordinator that has not answered by then is not waited for: the origin decides from its own view.
    pub coordinator_answer: Duration,
    /// Longest silence between two tokens. With `coordinator_answer` and one hop it keeps a frozen worker's pause within
    /// 4 s (plus prefill) even where the transport notices nothing.
    pub token_silence: Duration,
    /// Longest silence before the first token, where the plan expects no wait; twice the wait that the plan named is
    /// added (a model to load, a queue), and it doubles each time that a worker of this request exceeded it, so that a
    /// machine that is merely slow gets its answer out in the end.
    pub first_token_silence: Duration,
    /// Longest time from start to first token, however many signs of life come meanwhile.
    pub first_token: Duration,
    /// The client of a request that nobody can take is told so within this time: a little less than the 2 s promised.
    pub nowhere_patience: Duration,
    /// Between two such questions.
    pub nowhere_retry: Duration,
    /// How long a peer that failed the request is left out of its next placements.
    pub exclusion: Duration,
    /// What an error tells the client to wait where no better figure is known.
    pub retry_after: Duration,
    /// Assignments of one request in total: a long answer on a restless swarm moves often.
    pub assignments_max: u32,
    /// Assignments in a row that brought no token.
    pub fruitless_max: u32,
    /// Engine failures in a row that brought no token: a prompt that crashes engines must not go round the swarm.
    pub engine_failures_max: u32,
}

#[cfg(test)]
impl Limits {
    /// All timers due at once: a model checker then decides what comes first.
    pub(super) fn untimed(assignments_max: u32) -> Self {
        let zero = Duration::ZERO;
        Self {
            coordinator_answer: zero,
            token_silence: zero,
            first_token_silence: zero,
            first_token: zero,
            nowhere_patience: zero,
            nowhere_retry: zero,
            exclusion: zero,
            retry_after: zero,
            assignments_max,
            fruitless_max: assignments_max,
            engine_failures_max: assignments_max,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            coordinator_answer: Duration::from_millis(300),
            token_silence: Duration::from_millis(3500),
            first_token_silence: Duration::from_millis(3500),
            first_token: Duration::from_mins(15),
            nowhere_patience: Duration::from_millis(1900),
            nowhere_retry: Duration::from_millis(350),
            exclusion: Duration::from_secs(30),
            retry_after: Duration::from_secs(15),
            assignments_max: 32,
            fruitless_max: 6,
            engine_failures_max: 3,
        }
    }
}
