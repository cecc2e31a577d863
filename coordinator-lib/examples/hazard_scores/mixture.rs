//! The estimate that agents made of themselves before they had the frailty model: what it replaced is measured with it.
//!
//! S = w * S_record + (1 - w) * S_prior with w = n / (n + 5): the Kaplan-Meier curve of n sessions, and a Weibull curve.

use std::collections::BTreeMap;

use idlewild_coordinator::hazard::{
    Ending, Estimator, KaplanMeier, Prediction, Session, Surroundings, Survival, Weibull,
};

/// How many recorded sessions weigh as much as the prior.
const PRIOR_SESSIONS: f64 = 5.0;

/// The history of each peer, as of its last end.
#[derive(Debug, Default)]
pub(crate) struct Mixture {
    sessions: BTreeMap<usize, Vec<Session>>,
    live: BTreeMap<usize, f64>,
}

#[derive(Debug)]
struct Mixed {
    record: KaplanMeier,
    prior: Weibull,
    weight: f64,
}

impl Survival for Mixed {
    fn survival(&self, t_s: f64) -> f64 {
        self.weight * self.record.survival(t_s) + (1.0 - self.weight) * self.prior.survival(t_s)
    }
}

impl Estimator<usize> for Mixture {
    fn begin(&mut self, at_s: f64, peer: &usize, age_s: Option<f64>, _surroundings: Surroundings) {
        self.live.remove(peer);
        if age_s == Some(0.0) {
            self.live.insert(*peer, at_s);
        }
    }

    fn go_on(&mut self, _at_s: f64, _peer: &usize, _surroundings: Surroundings) {}

    fn end(&mut self, at_s: f64, peer: &usize, ending: Ending) {
        let Some(began_s) = self.live.remove(peer) else { return };
        let session = Session { length_s: at_s - began_s, observed: ending != Ending::Censored };
        self.sessions.entry(*peer).or_default().push(session);
    }

    fn forget(&mut self, peer: &usize) {
        self.sessions.remove(peer);
    }

    fn refit(&mut self, _now_s: f64) {}

    fn predict(&self, _now_s: f64, peer: &usize, age_s: f64) -> Prediction<'_> {
        let sessions = self.sessions.get(peer).map_or(&[][..], Vec::as_slice);
        let ended = sessions.iter().filter(|session| session.observed).count() as f64;
        let prior = Weibull { shape: 0.7, hazard: 1.0, unit_s: 3600.0 };
        let curve = Mixed { record: KaplanMeier::fit(sessions), prior, weight: ended / (ended + PRIOR_SESSIONS) };
        Prediction { curve: Box::new(curve), age_s }
    }
}
