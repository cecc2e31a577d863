//! The election's timers, each with its why.

use core::time::Duration;

/// How long an election waits for what. The defaults give a new leader at most 3 s after a kill -9 of the old one, of
/// which up to 2 s pass before its departure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two beats of a leader.
    pub beat: Duration,
    /// A follower that has not heard a beat for so long looks for another leader: three beats, so that one lost or late
    /// beat is nothing. As long as a heartbeat's timeout: earlier would be a guess, later a pause.
    pub patience: Duration,
    /// A follower that heard a beat within this time votes for nobody else. Shorter than `patience`, so that whoever
    /// stands because beats stopped finds voters who may already vote.
    pub loyalty: Duration,
    /// A peer that meets others while no leader is known waits for a beat before it stands: longer than `beat`.
    pub acquaintance: Duration,
    /// Added to a candidacy for each better-ranked live peer, so that the best stands alone: a few round trips.
    pub rank_step: Duration,
    /// Better-ranked peers that count for it: the delay is bounded whatever the swarm's size.
    pub rank_steps_max: u32,
    /// Upper end of a random addition, so that two who believe to rank alike do not stand together for ever.
    pub jitter: Duration,
    /// How long a candidate waits for votes.
    pub vote: Duration,
    /// Pause after the first failed candidacy; doubles with each.
    pub retry: Duration,
    /// Longest such pause.
    pub retry_max: Duration,
    /// Head start of a named successor before others stand.
    pub hand_over: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            beat: Duration::from_millis(500),
            patience: Duration::from_millis(1500),
            loyalty: Duration::from_millis(1200),
            acquaintance: Duration::from_millis(700),
            rank_step: Duration::from_millis(120),
            rank_steps_max: 6,
            jitter: Duration::from_millis(40),
            vote: Duration::from_millis(300),
            retry: Duration::from_millis(80),
            retry_max: Duration::from_secs(5),
            hand_over: Duration::from_millis(500),
        }
    }
}

impl Timing {
    /// All timers due at once: a model checker then decides what comes first.
    #[cfg(test)]
    pub(crate) fn untimed() -> Self {
        let zero = Duration::ZERO;
        Self {
            beat: zero,
            patience: zero,
            loyalty: zero,
            acquaintance: zero,
            rank_step: zero,
            rank_steps_max: 0,
            jitter: zero,
            vote: zero,
            retry: zero,
            retry_max: zero,
            hand_over: zero,
        }
    }
}
