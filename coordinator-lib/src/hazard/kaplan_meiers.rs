//! The reference's curves as an estimator: each peer's own, or the pooled one.

use core::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::estimator::usable_age_s;
use super::{Ending, Estimator, HazardLog, Prediction, Surroundings, Survival};

/// Kaplan-Meier curves of many peers, as of the last [`Estimator::refit`].
///
/// Baselines: they know neither time of day nor surroundings. A session whose beginning was not seen is left out, which
/// biases nothing as long as that is chance. Keeps every session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KaplanMeiers<K: Ord> {
    log: HazardLog<K>,
}

impl<K: Ord + Clone> KaplanMeiers<K> {
    /// A peer answers from its own sessions from `min_sessions` departures on, before that from all peers'.
    pub fn per_peer(min_sessions: usize) -> Self {
        Self { log: HazardLog::new(min_sessions) }
    }

    /// Every peer answers from all peers' sessions.
    pub fn pooled() -> Self {
        Self::per_peer(usize::MAX)
    }
}

impl<K: Ord + Clone + Debug> Estimator<K> for KaplanMeiers<K> {
    fn begin(&mut self, at_s: f64, peer: &K, age_s: Option<f64>, _surroundings: Surroundings) {
        if !at_s.is_finite() {
            return;
        }
        if age_s.is_some_and(|age_s| usable_age_s(age_s) == 0.0) {
            self.log.join(at_s, peer.clone());
        } else {
            self.log.abandon(peer);
        }
    }

    fn go_on(&mut self, _at_s: f64, _peer: &K, _surroundings: Surroundings) {}

    fn end(&mut self, at_s: f64, peer: &K, ending: Ending) {
        match ending {
            _ if !at_s.is_finite() => {}
            Ending::Departed(_) => self.log.leave(at_s, peer),
            Ending::Censored => self.log.censor(at_s, peer),
        }
    }

    fn forget(&mut self, peer: &K) {
        self.log.forget(peer);
    }

    fn refit(&mut self, now_s: f64) {
        self.log.refit(if now_s.is_finite() { now_s } else { 0.0 });
    }

    fn predict(&self, now_s: f64, peer: &K, age_s: f64) -> Prediction<'_> {
        let curve: Box<dyn Survival + '_> = Box::new(self.log.node(now_s, peer).curve);
        Prediction { curve, age_s: usable_age_s(age_s) }
    }
}
