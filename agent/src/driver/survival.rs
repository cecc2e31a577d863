//! How long this peer's session will last, from those on record and a prior for when they are few.
//!
//! S = w * S_record + (1 - w) * S_prior with w = n / (n + 5): the Kaplan-Meier curve of n recorded sessions, and a Weibull
//! curve. The prior keeps a new peer from claiming certainty in either direction; a week of use outweighs it.

use idlewild_coordinator::hazard::{KaplanMeier, Session, Survival};
use idlewild_protocol::QuantisedSurvival;

use crate::store::SessionRecord;

/// How many recorded sessions weigh as much as the prior.
const PRIOR_SESSIONS: f64 = 5.0;

/// Of the prior: below 1, so that who has been away for long stays away for long.
const PRIOR_SHAPE: f64 = 0.7;

/// What is believed before anything is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prior {
    /// Somebody uses this machine.
    Used,
    /// Nobody does, as its owner says.
    Unused,
}

impl Prior {
    /// Of the Weibull curve, in seconds: 63 % of sessions are shorter. A lunch, a meeting, an evening elsewhere; or from
    /// one update of the system to the next.
    fn scale_s(self) -> f64 {
        match self {
            Self::Used => 3600.0,
            Self::Unused => 30.0 * 86_400.0,
        }
    }
}

/// The estimate of one peer.
#[derive(Debug)]
pub(super) struct OwnSurvival {
    prior: Prior,
    record: KaplanMeier,
    /// Sessions whose end was seen.
    sessions: u64,
}

impl OwnSurvival {
    /// From all sessions on record; one that still lasts counts as lasting at least so long.
    pub(super) fn fit(prior: Prior, records: &[SessionRecord]) -> Self {
        let sessions: Vec<Session> =
            records.iter().map(|r| Session { length_s: r.length_s, observed: r.is_observed() }).collect();
        let ended = records.iter().filter(|record| record.is_observed()).count();
        Self { prior, record: KaplanMeier::fit(&sessions), sessions: ended as u64 }
    }

    /// Sessions that it is made of.
    pub(super) fn sessions(&self) -> u64 {
        self.sessions
    }

    /// The curve from now on, for a session that has lasted `age_s`.
    pub(super) fn curve_at(&self, age_s: f64) -> QuantisedSurvival {
        QuantisedSurvival::of(|t_s| self.conditional(age_s, t_s))
    }
}

impl Survival for OwnSurvival {
    fn survival(&self, t_s: f64) -> f64 {
        let weight = self.sessions as f64 / (self.sessions as f64 + PRIOR_SESSIONS);
        let prior = (-(t_s.max(0.0) / self.prior.scale_s()).powf(PRIOR_SHAPE)).exp();
        weight * self.record.survival(t_s) + (1.0 - weight) * prior
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::DepartureCause;

    use super::*;

    fn ended(length_s: f64) -> SessionRecord {
        SessionRecord { started_s: 0, ended_s: Some(1), length_s, cause: Some(DepartureCause::OwnerReturned) }
    }

    #[test]
    fn a_new_peer_claims_no_certainty() {
        let survival = OwnSurvival::fit(Prior::Used, &[]);
        assert!((0.9..0.99).contains(&survival.conditional(0.0, 120.0)), "{}", survival.conditional(0.0, 120.0));
        assert!((0.02..0.2).contains(&survival.conditional(0.0, 4.0 * 3600.0)));
        assert!(survival.conditional(3600.0, 600.0) > survival.conditional(0.0, 600.0));
    }

    #[test]
    fn a_machine_that_nobody_uses_is_expected_to_stay() {
        let unused = OwnSurvival::fit(Prior::Unused, &[]);
        assert!(unused.conditional(0.0, 60.0) > 0.999);
        assert!(unused.conditional(0.0, 3600.0) > 0.98);
        let left = OwnSurvival::fit(Prior::Unused, &vec![ended(60.0); 95]);
        assert!(left.conditional(0.0, 61.0) < 0.06, "what happened counts, whatever was said");
    }

    #[test]
    fn many_recorded_sessions_outweigh_the_prior() {
        let short = OwnSurvival::fit(Prior::Used, &vec![ended(60.0); 95]);
        assert!(short.conditional(0.0, 59.0) > 0.95);
        assert!(short.conditional(0.0, 61.0) < 0.06);
        assert_eq!(short.sessions(), 95);
    }

    #[test]
    fn survival_starts_at_one_and_never_rises() {
        let survival = OwnSurvival::fit(Prior::Used, &[ended(10.0), ended(1000.0)]);
        let curve: Vec<f64> = (0..2000).map(|t_s| survival.survival(f64::from(t_s))).collect();
        assert_eq!(curve[0], 1.0);
        assert!(curve.is_sorted_by(|a, b| a >= b));
    }
}
