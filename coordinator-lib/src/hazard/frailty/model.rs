//! The model as an estimator: who is told what, in which order.

use core::fmt::Debug;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::estimator::{known_age_s, usable_age_s};
use super::super::{Ending, Estimator, PieceCurve, Prediction, Surroundings};
use super::FrailtyParameters;
use super::causes::CauseShares;
use super::count::{Until, count};
use super::fleet::FleetHazard;
use super::outlook::Outlook;
use super::peer::{Live, Peer};
use super::site::{Burst, Site};
use super::tally::Counts;

/// How many sites may be remembered before quiet ones are dropped.
const MANY_SITES: usize = 4096;

/// The piecewise-constant hazard with a frailty for each peer: the product's default.
///
/// One number per peer and factor, updated in the time that it takes to walk the age bins and hours that passed. The
/// whole state can be stored and read back; it then answers the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct Frailty<K: Ord> {
    parameters: FrailtyParameters,
    fleet: FleetHazard,
    #[serde(with = "crate::pairs")]
    peers: BTreeMap<K, Peer>,
    sites: BTreeMap<u64, Site>,
}

impl<K: Ord> Default for Frailty<K> {
    fn default() -> Self {
        Self::new(FrailtyParameters::default())
    }
}

impl<K: Ord> Frailty<K> {
    /// A model that has seen nothing.
    pub fn new(parameters: FrailtyParameters) -> Self {
        Self::with_fleet(parameters, FleetHazard::default())
    }

    /// A model that knows a fleet, and none of its peers.
    pub fn with_fleet(parameters: FrailtyParameters, fleet: FleetHazard) -> Self {
        Self { parameters: parameters.usable(), fleet, peers: BTreeMap::new(), sites: BTreeMap::new() }
    }

    /// Learns no more about the fleet.
    #[cfg(test)]
    pub(super) fn hold_fleet(&mut self) {
        self.fleet.hold();
    }

    /// What has been learnt of all peers together.
    pub fn fleet(&self) -> &FleetHazard {
        &self.fleet
    }

    /// Fits the fleet to a recorded history by `rounds` of EM; `tell` must tell it, from its beginning, each time.
    ///
    /// In each round the peers' factors are learnt anew with the fleet's as the last round left them, then the fleet's
    /// from both. What had been told before counts as the first round. Afterwards the model knows the history once.
    pub fn fit(&mut self, rounds: usize, mut tell: impl FnMut(&mut Self)) {
        for _ in 0..rounds {
            self.peers.clear();
            self.sites.clear();
            self.fleet.hold();
            tell(self);
            self.fleet.release(&self.parameters);
            self.rescale();
        }
    }

    /// Which part of the hazard of `peer` is due to which cause.
    pub fn causes(&self, peer: &K) -> CauseShares {
        let strength = self.parameters.cause_strength;
        let fleet = self.fleet.causes.shares(&CauseShares::EQUAL, strength);
        self.peers.get(peer).map_or(fleet, |peer| peer.causes.shares(&fleet, strength))
    }

    /// The survival of a session of `peer` that is `age_s` seconds old at `now_s`, by the seconds from then on: what
    /// [`Estimator::predict`] gives, as the type that it is.
    pub fn curve(&self, now_s: f64, peer: &K, age_s: f64) -> PieceCurve {
        let now_s = if now_s.is_finite() { now_s } else { 0.0 };
        let known = self.peers.get(peer).map(|peer| peer.counted(now_s, &self.fleet, &self.parameters));
        let known = known.unwrap_or_default();
        let surroundings = known.live.map(|live| live.surroundings).unwrap_or_default();
        let outlook = Outlook {
            now_s,
            age_s: usable_age_s(age_s),
            surroundings,
            peer: known.factors(now_s, self.fleet.scale(), &self.parameters),
            burst: self.burst(now_s, &surroundings),
        };
        outlook.curve(&self.fleet, &self.parameters)
    }

    /// How much sooner (above 1) or later than the fleet `peer` is expected to leave at `now_s`.
    pub fn theta(&self, now_s: f64, peer: &K) -> f64 {
        let counted = self.peers.get(peer).map(|peer| peer.counted(now_s, &self.fleet, &self.parameters));
        counted.unwrap_or_default().factors(now_s, self.fleet.scale(), &self.parameters).theta()
    }

    fn rescale(&mut self) {
        let counts: Vec<Counts> = self.peers.values().map(Peer::overall).collect();
        self.fleet.rescale(&counts, &self.parameters);
    }

    fn burst(&self, now_s: f64, surroundings: &Surroundings) -> Burst {
        let site = surroundings.site.and_then(|site| self.sites.get(&site));
        site.map(|site| site.burst(now_s, &self.parameters)).unwrap_or_default()
    }

    /// Departures a second that are expected of `peer` at `now_s`, up to which its live session must be counted,
    /// without the burst of its site.
    fn rate(&self, now_s: f64, peer: &Peer, live: &Live) -> f64 {
        let moment = live.start().moment();
        let factors = peer.factors(now_s, self.fleet.scale(), &self.parameters);
        let signs = self.fleet.of_signs(live.surroundings.signs);
        self.fleet.rate(&moment, signs) * factors.theta() * factors.beside(&moment)
    }

    /// What is known of `peer` with its live session counted until `now_s`, and that session, which has left its site; none
    /// where none is live. The peer itself stays as it was until somebody puts back what this answers.
    fn take(&mut self, now_s: f64, peer: &K, departed: bool) -> Option<(Peer, Live)> {
        let mut known = *self.peers.get(peer)?;
        let live = known.live?;
        let burst = self.burst(live.at_s, &live.surroundings);
        count(&mut known, &live, Until { now_s, departed }, &mut self.fleet, burst, &self.parameters);
        let live = known.live.take()?;
        if let Some(site) = live.surroundings.site.and_then(|site| self.sites.get_mut(&site)) {
            site.leave(live.at_s, live.rate_per_s, departed, &self.parameters);
        }
        Some((known, live))
    }

    /// Makes `live` the session of `peer`, of which this is `known`.
    fn put(&mut self, peer: &K, known: &Peer, mut live: Live)
    where
        K: Clone,
    {
        if let Some(site) = live.surroundings.site {
            live.rate_per_s = self.rate(live.at_s, known, &live);
            self.sites.entry(site).or_default().join(live.at_s, live.rate_per_s, &self.parameters);
            self.drop_quiet_sites(live.at_s);
        }
        let mut known = *known;
        known.live = Some(live);
        self.peers.insert(peer.clone(), known);
    }

    /// Drops the live session of `peer` as if it had never been seen, but for what was counted of it.
    fn abandon(&mut self, peer: &K) {
        let Some(live) = self.peers.get_mut(peer).and_then(|known| known.live.take()) else { return };
        if let Some(site) = live.surroundings.site.and_then(|site| self.sites.get_mut(&site)) {
            site.leave(live.at_s, live.rate_per_s, false, &self.parameters);
        }
    }

    fn drop_quiet_sites(&mut self, now_s: f64) {
        if self.sites.len() > MANY_SITES {
            let parameters = self.parameters;
            self.sites.retain(|_, site| !site.is_quiet(now_s, &parameters));
        }
    }
}

impl<K: Ord + Clone + Debug> Estimator<K> for Frailty<K> {
    fn begin(&mut self, at_s: f64, peer: &K, age_s: Option<f64>, surroundings: Surroundings) {
        if !at_s.is_finite() {
            return;
        }
        self.abandon(peer);
        let age = known_age_s(age_s);
        let live = Live {
            at_s,
            age_s: age.unwrap_or(self.parameters.unseen_age_s),
            is_age_known: age.is_some(),
            surroundings: surroundings.usable(),
            rate_per_s: 0.0,
        };
        let known = self.peers.get(peer).copied().unwrap_or_default();
        self.put(peer, &known, live);
    }

    fn go_on(&mut self, at_s: f64, peer: &K, surroundings: Surroundings) {
        if !at_s.is_finite() {
            return;
        }
        let Some((known, live)) = self.take(at_s, peer, false) else { return };
        self.put(peer, &known, Live { surroundings: surroundings.usable(), ..live });
    }

    fn end(&mut self, at_s: f64, peer: &K, ending: Ending) {
        if !at_s.is_finite() {
            return;
        }
        let scheduled = self.peers.get(peer).and_then(|peer| peer.live).is_some_and(|live| live.is_scheduled(at_s));
        let (departed, cause) = match ending {
            Ending::Departed(cause) => (true, Some(cause)),
            Ending::Censored => (false, None),
        };
        // What a schedule ended says nothing about chance.
        let Some((mut known, _)) = self.take(at_s, peer, departed && !scheduled) else { return };
        if let Some(cause) = cause {
            known.causes.count(cause);
            self.fleet.causes.count(cause);
        }
        self.peers.insert(peer.clone(), known);
    }

    fn forget(&mut self, peer: &K) {
        self.abandon(peer);
        self.peers.remove(peer);
    }

    /// Sets the scale of the fleet's hazard, which no single session tells; all else is fitted as sessions happen.
    fn refit(&mut self, _now_s: f64) {
        self.rescale();
    }

    fn predict(&self, now_s: f64, peer: &K, age_s: f64) -> Prediction<'_> {
        let curve = self.curve(now_s, peer, age_s);
        Prediction { curve: Box::new(curve), age_s: 0.0 }
    }
}
