//! How long a request waits, and how often it tries.

use core::time::Duration;

/// The bounds of one request. All timers of the machine are here, each with its why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A coordinator that has not answered by then is not waited for: the origin decides from its own view.
    pub coordinator_answer: Duration,
    /// Longest silence between two tokens. With `coordinator_answer` and one hop it keeps a frozen worker's pause within
    /// 4 s (plus prefill) even where the transport notices nothing. It doubles, within bounds, each time that a worker
    /// of this request exceeded it: a swarm whose machines are all slow must not send a request round for ever.
    pub token_silence: Duration,
    /// Longest silence before the first token, where the plan expects no wait; twice the wait that the plan named is
    /// added (a model to load, a queue), and it doubles each time that a worker of this request exceeded it, so that a
    /// machine that is merely slow gets its answer out in the end.
    pub first_token_silence: Duration,
    /// Longest time from start to first token, however many signs of life come meanwhile.
    pub first_token: Duration,
    /// The client of a request that nobody can take is told so within this time: a little less than the 2 s promised.
    pub nowhere_patience: Duration,
    /// The same for a request of which tokens exist already: its client waits through a restart or a short sleep rather
    /// than lose the rest of an answer.
    pub orphan_patience: Duration,
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
    /// Longest silence of a destination that lacks a part of the context: longer than of a worker, since no client
    /// waits for it.
    pub standby_silence: Duration,
    /// Longest time from prepare to ready, however many signs of life come meanwhile.
    pub preparation: Duration,
    /// How long a source that was told to stop may take to say its last tokens; then the destination goes on without.
    pub stop: Duration,
    /// Tokens that a source may still say when it is told to stop: what it says within a round trip is on its way
    /// anyhow, and meanwhile the destination makes ready the last tokens of the context.
    pub stop_after_tokens: u32,
    /// Tokens that a destination may lag behind at a commit: what any prefill catches up with in a moment.
    pub commit_lag_tokens: u32,
    /// Preparations of one request in total.
    pub preparations_max: u32,
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
            orphan_patience: zero,
            nowhere_retry: zero,
            exclusion: zero,
            retry_after: zero,
            assignments_max,
            fruitless_max: assignments_max,
            engine_failures_max: assignments_max,
            standby_silence: zero,
            preparation: zero,
            stop: zero,
            stop_after_tokens: 1,
            commit_lag_tokens: u32::MAX,
            preparations_max: assignments_max,
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
            orphan_patience: Duration::from_secs(10),
            nowhere_retry: Duration::from_millis(350),
            exclusion: Duration::from_secs(30),
            retry_after: Duration::from_secs(15),
            assignments_max: 32,
            fruitless_max: 6,
            engine_failures_max: 3,
            standby_silence: Duration::from_secs(5),
            preparation: Duration::from_mins(15),
            stop: Duration::from_secs(2),
            stop_after_tokens: 4,
            commit_lag_tokens: 64,
            preparations_max: 64,
        }
    }
}
