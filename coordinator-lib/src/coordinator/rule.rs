//! The seam to the costs of the policy: what a request costs on a peer, and lower bounds of it.

use idlewild_protocol::PeerId;

use super::candidate::Candidate;
use super::fitness::Question;
use crate::cost::{CostParameters, PeerRates, Situation, Terms, service_s, terms};
use crate::policy::{HazardAwarePolicy, MigrationModel};
use crate::view::Offer;

/// By which rule peers are weighed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule<'p> {
    /// As given: E = T + L, by cells.
    Given(&'p CostParameters),
}

/// Who would take over from whom.
#[derive(Debug, Clone, Default)]
pub(super) struct Takers<'a> {
    best: Vec<Candidate<'a>>,
}

impl<'a> Takers<'a> {
    /// The best, and the best for the best.
    pub(super) const MOST: usize = 2;

    /// Of the best, best first.
    pub(super) fn new(best: Vec<Candidate<'a>>) -> Self {
        Self { best }
    }

    /// Who would take over from `peer`; none where there is nobody else.
    pub(super) fn of(&self, peer: PeerId) -> Option<&Candidate<'a>> {
        self.best.iter().find(|taker| taker.peer != peer)
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Candidate<'a>] {
        &self.best
    }
}

impl<'p> Rule<'p> {
    /// The policy's.
    pub(super) fn of(policy: &'p HazardAwarePolicy) -> Self {
        match policy.migration {
            MigrationModel::Blocking => Self::Given(&policy.parameters),
        }
    }

    /// The terms of what is asked on `candidate`, where it waits `wait_s`.
    pub(super) fn terms(
        self,
        question: &Question<'_>,
        candidate: &Candidate<'_>,
        wait_s: f64,
        takers: &Takers<'_>,
    ) -> Terms {
        let Self::Given(parameters) = self;
        let rates = candidate.rates();
        let rebuild_tps = takers.of(candidate.peer).map(|taker| taker.rates().prefill_tps);
        let situation = Situation { rates: &rates, hazard: candidate.hazard(), wait_s, rebuild_tps };
        terms(&situation, &question.work, parameters)
    }

    /// E is no less than this on any peer that offers no more than `offer`: T there. No loss is negative.
    pub(super) fn least_s(self, question: &Question<'_>, offer: &Offer, _: &Takers<'_>) -> f64 {
        let rates = PeerRates {
            decode_tps: offer.decode_tps,
            prefill_tps: offer.prefill_tps,
            bandwidth_bps: 0.0,
            kv_bytes_per_token: 0.0,
            room_tokens: u32::MAX,
        };
        offer.wait_s + service_s(&rates, &question.work)
    }

    /// What fallbacks are ranked by: seconds to prefill a token, since the fastest at that is taken.
    pub(super) fn taking_over_s(self, question: &Question<'_>, candidate: &Candidate<'_>) -> f64 {
        self.least_taking_over_s(question, &candidate.offer())
    }

    /// No peer that offers no more than `offer` ranks before this.
    pub(super) fn least_taking_over_s(self, _: &Question<'_>, offer: &Offer) -> f64 {
        1.0 / offer.prefill_tps
    }
}
