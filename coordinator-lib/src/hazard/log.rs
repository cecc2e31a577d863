//! Many nodes' sessions over time, and a curve for each: its own where it has history enough, else the pooled one.
//!
//! The reference's model, for simulations and golden vectors. A live agent knows only its own sessions: it quantises
//! its curve into its digest and reads the others' from theirs.
//!
//! Invariant: between two refits every curve stays as it was, however old its live sessions get; ages are always now's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::session::MIN_SESSION_S;
use super::{Hazard, KaplanMeier, Session};

/// What is known of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Node {
    /// Sessions that are over.
    over: Vec<Session>,
    /// When the live one began, in seconds of the caller's clock; none while the node is down.
    began_s: Option<f64>,
}

impl Node {
    fn events(&self) -> usize {
        self.over.iter().filter(|session| session.observed).count()
    }

    /// All its sessions at `now_s`, the live one censored.
    fn sessions(&self, now_s: f64) -> impl Iterator<Item = Session> {
        let live = self.began_s.map(|began_s| Session::censored((now_s - began_s).max(MIN_SESSION_S)));
        self.over.iter().copied().chain(live)
    }
}

/// Whose sessions a curve is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurveSource {
    /// The node's own.
    Own,
    /// Those of every node known.
    Pooled,
}

/// A node's curve and where it stands on it.
#[derive(Debug, Clone, Copy)]
pub struct NodeHazard<'a> {
    /// The curve.
    pub curve: &'a KaplanMeier,
    /// Whose sessions it is made of.
    pub source: CurveSource,
    /// Seconds since the node's live session began; 0 for a node that is down or unknown.
    pub age_s: f64,
}

impl<'a> NodeHazard<'a> {
    /// The same as costs take it.
    pub fn hazard(&self) -> Hazard<'a> {
        Hazard { curve: self.curve, age_s: self.age_s }
    }
}

/// Sessions of many nodes, fitted lazily: at the first question after something ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct HazardLog<K: Ord> {
    /// Departures from which a node has a curve of its own.
    min_sessions: usize,
    #[serde(with = "crate::pairs")]
    nodes: BTreeMap<K, Node>,
    pooled: KaplanMeier,
    #[serde(with = "crate::pairs")]
    own: BTreeMap<K, KaplanMeier>,
    /// Whether a session has ended since the last fit.
    is_stale: bool,
}

impl<K: Ord + Clone> HazardLog<K> {
    /// A log without nodes, in which a node has its own curve from `min_sessions` departures on.
    pub fn new(min_sessions: usize) -> Self {
        let pooled = KaplanMeier::fit(&[]);
        Self { min_sessions, nodes: BTreeMap::new(), pooled, own: BTreeMap::new(), is_stale: true }
    }

    /// Begins a session. One that was live is forgotten: nobody saw it end.
    pub fn join(&mut self, now_s: f64, node: K) {
        self.nodes.entry(node).or_default().began_s = Some(now_s);
    }

    /// Ends the node's live session, if it has one.
    pub fn leave(&mut self, now_s: f64, node: &K) {
        self.is_stale = true;
        let Some(known) = self.nodes.get_mut(node) else { return };
        let Some(began_s) = known.began_s.take() else { return };
        known.over.push(Session::ended((now_s - began_s).max(MIN_SESSION_S)));
    }

    /// Ends the node's live session, if it has one, without a departure: it is censored now.
    pub fn censor(&mut self, now_s: f64, node: &K) {
        let Some(known) = self.nodes.get_mut(node) else { return };
        let Some(began_s) = known.began_s.take() else { return };
        self.is_stale = true;
        known.over.push(Session::censored((now_s - began_s).max(MIN_SESSION_S)));
    }

    /// Forgets the node's live session, if it has one, and with it that it was at risk.
    pub fn abandon(&mut self, node: &K) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.began_s = None;
        }
    }

    /// Forgets all of the node; curves stay as they are until the next fit, which this asks for.
    pub fn forget(&mut self, node: &K) {
        self.is_stale |= self.nodes.remove(node).is_some();
    }

    /// Adds a session that is over, such as one read from a store.
    pub fn record(&mut self, node: K, session: Session) {
        self.is_stale = true;
        self.nodes.entry(node).or_default().over.push(session);
    }

    /// Fits every curve anew if a session has ended since the last fit. Live sessions count as censored at `now_s`.
    pub fn refit(&mut self, now_s: f64) {
        if !self.is_stale {
            return;
        }
        let all: Vec<Session> = self.nodes.values().flat_map(|node| node.sessions(now_s)).collect();
        self.pooled = KaplanMeier::fit(&all);
        self.own = self.nodes.iter().filter(|(_, node)| self.has_history(node)).map(fit_own(now_s)).collect();
        self.is_stale = false;
    }

    fn has_history(&self, node: &Node) -> bool {
        node.events() >= self.min_sessions
    }

    /// The node's curve as of the last [`Self::refit`], and its age at `now_s`.
    pub fn node(&self, now_s: f64, node: &K) -> NodeHazard<'_> {
        let began_s = self.nodes.get(node).and_then(|known| known.began_s);
        let age_s = began_s.map_or(0.0, |began_s| now_s - began_s);
        match self.own.get(node) {
            Some(curve) => NodeHazard { curve, source: CurveSource::Own, age_s },
            None => NodeHazard { curve: &self.pooled, source: CurveSource::Pooled, age_s },
        }
    }

    /// [`Self::refit`], then [`Self::node`].
    pub fn query(&mut self, now_s: f64, node: &K) -> NodeHazard<'_> {
        self.refit(now_s);
        self.node(now_s, node)
    }
}

fn fit_own<K: Clone>(now_s: f64) -> impl FnMut((&K, &Node)) -> (K, KaplanMeier) {
    move |(name, node)| {
        let sessions: Vec<Session> = node.sessions(now_s).collect();
        (name.clone(), KaplanMeier::fit(&sessions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::Survival;

    fn log_of(sessions: &[(&'static str, f64)], min_sessions: usize) -> HazardLog<&'static str> {
        let mut log = HazardLog::new(min_sessions);
        for &(node, length_s) in sessions {
            log.record(node, Session::ended(length_s));
        }
        log
    }

    #[test]
    fn a_node_with_history_answers_from_its_own_and_others_from_the_pool() {
        let mut log = log_of(&[("a", 10.0), ("a", 20.0), ("b", 1000.0)], 2);
        assert_eq!(log.query(0.0, &"a").source, CurveSource::Own);
        assert_eq!(log.query(0.0, &"b").source, CurveSource::Pooled);
        assert_eq!(log.query(0.0, &"nobody").source, CurveSource::Pooled);
        assert_eq!(log.query(0.0, &"b").curve.times_s(), [10.0, 20.0, 1000.0]);
    }

    #[test]
    fn a_second_join_forgets_the_first() {
        let mut log = HazardLog::new(1);
        log.join(0.0, "a");
        log.join(50.0, "a");
        log.leave(60.0, &"a");
        assert_eq!(log.query(60.0, &"a").curve.times_s(), [10.0]);
    }

    #[test]
    fn a_join_leaves_the_curves_as_they_are_and_a_leave_does_not() {
        let mut log = log_of(&[("a", 10.0), ("a", 20.0)], 5);
        let before = log.query(100.0, &"a").curve.clone();
        log.join(100.0, "b");
        assert_eq!(*log.query(5000.0, &"b").curve, before);
        assert_eq!(log.query(5000.0, &"b").age_s, 4900.0);
        log.leave(5000.0, &"nobody");
        assert!(log.query(5000.0, &"b").curve.survival(20.0) > before.survival(20.0), "b is now at risk");
    }

    #[test]
    fn a_node_that_left_has_no_age() {
        let mut log = HazardLog::new(1);
        log.join(0.0, "a");
        assert_eq!(log.query(7.0, &"a").age_s, 7.0);
        log.leave(8.0, &"a");
        assert_eq!(log.query(9.0, &"a").age_s, 0.0);
    }
}
