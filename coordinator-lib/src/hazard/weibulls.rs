//! Weibull curves of many peers, each drawn towards the fleet's.

use core::fmt::Debug;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::estimator::{known_age_s, usable_age_s};
use super::session::MIN_SESSION_S;
use super::{Ending, Estimator, Prediction, Session, Surroundings, Weibull, WeibullPrior};

/// Sessions of a peer that are kept, the latest ones.
const MOST_SESSIONS: usize = 200;

/// How much of a peer's curve is the fleet's: about as much as of four departures.
const HAZARD_STRENGTH: f64 = 4.0;
const SHAPE_DEVIATION: f64 = 0.2;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Node {
    over: VecDeque<Session>,
    /// When the live session began; none while there is none whose beginning was seen.
    began_s: Option<f64>,
}

impl Node {
    fn end(&mut self, at_s: f64, observed: bool) {
        let Some(began_s) = self.began_s.take() else { return };
        if self.over.len() == MOST_SESSIONS {
            self.over.pop_front();
        }
        self.over.push_back(Session { length_s: (at_s - began_s).max(MIN_SESSION_S), observed });
    }

    fn sessions(&self, now_s: f64) -> Vec<Session> {
        let live = self.began_s.map(|began_s| Session::censored((now_s - began_s).max(MIN_SESSION_S)));
        self.over.iter().copied().chain(live).collect()
    }
}

/// A Weibull curve for each peer, maximum a posteriori with the fleet's curve as the prior's centre, as of the last
/// [`Estimator::refit`].
///
/// A baseline: smooth where Kaplan-Meier has steps, but the hazard of one shape only falls or only rises, and neither
/// time of day nor surroundings count. A session whose beginning was not seen is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct Weibulls<K: Ord> {
    #[serde(with = "crate::pairs")]
    nodes: BTreeMap<K, Node>,
    fleet: Weibull,
    #[serde(with = "crate::pairs")]
    own: BTreeMap<K, Weibull>,
    /// Whether a session has ended since the last fit.
    is_stale: bool,
}

impl<K: Ord> Default for Weibulls<K> {
    fn default() -> Self {
        let fleet = WeibullPrior::VAGUE.centre;
        Self { nodes: BTreeMap::new(), fleet, own: BTreeMap::new(), is_stale: false }
    }
}

impl<K: Ord + Clone + Debug> Estimator<K> for Weibulls<K> {
    fn begin(&mut self, at_s: f64, peer: &K, age_s: Option<f64>, _surroundings: Surroundings) {
        if at_s.is_finite() {
            let is_seen = known_age_s(age_s) == Some(0.0);
            self.nodes.entry(peer.clone()).or_default().began_s = is_seen.then_some(at_s);
        }
    }

    fn go_on(&mut self, _at_s: f64, _peer: &K, _surroundings: Surroundings) {}

    fn end(&mut self, at_s: f64, peer: &K, ending: Ending) {
        let Some(node) = self.nodes.get_mut(peer) else { return };
        if at_s.is_finite() {
            self.is_stale = true;
            node.end(at_s, matches!(ending, Ending::Departed(_)));
        }
    }

    fn forget(&mut self, peer: &K) {
        self.is_stale |= self.nodes.remove(peer).is_some();
        self.own.remove(peer);
    }

    fn refit(&mut self, now_s: f64) {
        if !self.is_stale {
            return;
        }
        let of_each: Vec<(&K, Vec<Session>)> =
            self.nodes.iter().map(|(peer, node)| (peer, node.sessions(now_s))).collect();
        let all: Vec<Session> = of_each.iter().flat_map(|(_, sessions)| sessions.iter().copied()).collect();
        self.fleet = WeibullPrior::VAGUE.fit(&all);
        let prior =
            WeibullPrior { centre: self.fleet, shape_deviation: SHAPE_DEVIATION, hazard_strength: HAZARD_STRENGTH };
        self.own = of_each.into_iter().map(|(peer, sessions)| (peer.clone(), prior.fit(&sessions))).collect();
        self.is_stale = false;
    }

    fn predict(&self, _now_s: f64, peer: &K, age_s: f64) -> Prediction<'_> {
        let curve = *self.own.get(peer).unwrap_or(&self.fleet);
        Prediction { curve: Box::new(curve), age_s: usable_age_s(age_s) }
    }
}
