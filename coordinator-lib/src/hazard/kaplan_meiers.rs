//! The reference's curves as an estimator: each peer's own, or the pooled one.

use core::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::estimator::{known_age_s, usable_age_s};
use super::{Ending, Estimator, HazardLog, KaplanMeier, Prediction, Surroundings, Survival};

/// Kaplan-Meier curves of many peers, as of the last [`Estimator::refit`].
///
/// Baselines: they know neither time of day nor surroundings. A session whose beginning was not seen is left out, which
/// biases nothing as long as that is chance. Keeps every session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
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

/// A curve without the floors of the published policy, under which a session of some days reads as over or endless.
#[derive(Debug, Clone, Copy)]
struct AtAnyAge<'a>(&'a KaplanMeier);

impl Survival for AtAnyAge<'_> {
    fn survival(&self, t_s: f64) -> f64 {
        self.0.survival(t_s)
    }

    fn conditional(&self, age_s: f64, t_s: f64) -> f64 {
        self.0.remaining(age_s, t_s)
    }
}

impl<K: Ord + Clone + Debug> Estimator<K> for KaplanMeiers<K> {
    fn begin(&mut self, at_s: f64, peer: &K, age_s: Option<f64>, _surroundings: Surroundings) {
        if !at_s.is_finite() {
            return;
        }
        if known_age_s(age_s) == Some(0.0) {
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
        let curve = AtAnyAge(self.log.node(now_s, peer).curve);
        Prediction { curve: Box::new(curve), age_s: usable_age_s(age_s) }
    }
}
