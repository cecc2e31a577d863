//! What is believed of how long peers stay: learnt as sessions happen, and gossiped as digests carry it.

use idlewild_protocol::{DepartureCause, QuantisedSurvival};

use crate::hazard::{DigestCurve, Ending, Estimator, Frailty, Hazard, Surroundings, Survival};

/// Seconds between two adjustments of the fleet's scale.
const REFIT_S: f64 = 300.0;

/// Stays for ever: of a peer of which nobody asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endless;

impl Survival for Endless {
    fn survival(&self, _: f64) -> f64 {
        1.0
    }
}

/// What the digest of a peer says, and when it was made.
#[derive(Debug, Clone, Copy)]
struct Made {
    survival: QuantisedSurvival,
    curve: DigestCurve,
    at_s: f64,
}

/// The estimate of each peer, by the product's model. All peers' sessions are known to one estimator: as if each had the
/// fleet's factors of this moment, which agents have in part at best.
#[derive(Debug)]
pub(super) struct Hazards {
    frailty: Frailty<usize>,
    sessions: Vec<Option<f64>>,
    digests: Vec<Option<Made>>,
    refitted_s: f64,
    digest_interval_s: f64,
}

impl Hazards {
    pub(super) fn new(peers: usize, digest_interval_s: f64) -> Self {
        Self {
            frailty: Frailty::default(),
            sessions: vec![None; peers],
            digests: vec![None; peers],
            refitted_s: f64::NEG_INFINITY,
            digest_interval_s,
        }
    }

    pub(super) fn begin(&mut self, now_s: f64, peer: usize) {
        self.frailty.begin(now_s, &peer, Some(0.0), Surroundings::default());
        self.sessions[peer] = Some(now_s);
        self.digests[peer] = None;
    }

    pub(super) fn end(&mut self, now_s: f64, peer: usize, cause: Option<DepartureCause>) {
        self.frailty.end(now_s, &peer, cause.map_or(Ending::Censored, Ending::Departed));
        self.sessions[peer] = None;
        self.digests[peer] = None;
    }

    /// Makes sure that the digest of the peer is no older than digests get.
    pub(super) fn refresh(&mut self, now_s: f64, peer: usize) {
        let is_fresh = self.digests[peer].is_some_and(|made| now_s - made.at_s < self.digest_interval_s);
        if is_fresh {
            return;
        }
        if now_s - self.refitted_s >= REFIT_S {
            self.frailty.refit(now_s);
            self.refitted_s = now_s;
        }
        let age_s = self.sessions[peer].map_or(0.0, |began_s| now_s - began_s);
        let survival = self.frailty.predict(now_s, &peer, age_s).quantise();
        self.digests[peer] = Some(Made { survival, curve: DigestCurve::new(&survival), at_s: now_s });
    }

    /// What the peer's digest carries; none where it has made none.
    pub(super) fn survival(&self, peer: usize) -> Option<QuantisedSurvival> {
        self.digests[peer].map(|made| made.survival)
    }

    /// What the peer's digest says now; that it stays for ever where it has none.
    pub(super) fn of(&self, now_s: f64, peer: usize) -> Hazard<'_> {
        match &self.digests[peer] {
            Some(made) => Hazard { curve: &made.curve, age_s: now_s - made.at_s },
            None => Hazard { curve: &Endless, age_s: 0.0 },
        }
    }
}
