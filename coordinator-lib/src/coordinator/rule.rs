//! The seam to the costs of the policy: what a request costs on a peer, and lower bounds of it.
//!
//! By either rule E >= T, since no loss and no slowdown is negative: T for the best that several peers can offer is a bound
//! for all of them.

use super::candidate::Candidate;
use super::fitness::Question;
use super::takers::Takers;
use crate::cost::{CostParameters, PeerRates, Situation, Terms, service_s, terms};
use crate::policy::overlapped::{OverlappedParameters, Placing, placement_terms};
use crate::policy::{HazardAwarePolicy, MigrationModel};
use crate::view::Offer;

/// What the corrected rule takes for the longest of times, in seconds, and what a message says of a longer one: 30 years.
pub(super) const FOREVER_S: f64 = 1e9;

/// By which rule peers are weighed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule<'p> {
    /// As given: E = T + L, by cells.
    Given(&'p CostParameters),
    /// The corrected one: L is exact and averaged over the residual output, and others' slowdown counts.
    Corrected(&'p OverlappedParameters),
}

impl<'p> Rule<'p> {
    /// The policy's.
    pub(super) fn of(policy: &'p HazardAwarePolicy) -> Self {
        match policy.migration {
            MigrationModel::Blocking => Self::Given(&policy.parameters),
            MigrationModel::Overlapped => Self::Corrected(&policy.overlapped),
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
        match self {
            Self::Given(parameters) => {
                let rates = candidate.rates();
                let rebuild_tps = takers.of(candidate.peer).map(|taker| taker.rates().prefill_tps);
                let situation = Situation { rates: &rates, hazard: candidate.hazard(), wait_s, rebuild_tps };
                terms(&situation, &question.work, parameters)
            }
            Self::Corrected(parameters) => {
                let fallback = takers.fallbacks().and_then(|fallbacks| fallbacks.of(candidate.peer, None));
                let host = candidate.host_waiting(wait_s);
                placement_terms(&placing(question), &host, fallback, parameters)
            }
        }
    }

    /// E is no less than this on any peer that offers no more than `offer` and holds nothing of the context.
    pub(super) fn least_s(self, question: &Question<'_>, offer: &Offer) -> f64 {
        match self {
            Self::Given(_) => offer.wait_s + service_s(&rates_of(offer), &question.work),
            Self::Corrected(_) => {
                let begins_s = offer.wait_s + f64::from(question.work.prefill_tokens) / offer.prefill_tps;
                (begins_s + question.residual.mean_tokens() / offer.decode_tps).min(FOREVER_S)
            }
        }
    }

    /// The same for one peer, whose chance to stay is known: T, and what its departure costs at the least. By the corrected
    /// rule alone, whose losses are dear: notice, restart, the price of the loss, and the context as it is now.
    pub(super) fn least_there_s(self, question: &Question<'_>, candidate: &Candidate<'_>, takers: &Takers<'_>) -> f64 {
        let offer = candidate.offer();
        let Self::Corrected(parameters) = self else { return self.least_s(question, &offer) };
        let begins_s = offer.wait_s + f64::from(question.work.prefill_tokens) / offer.prefill_tps;
        let hazard = candidate.hazard();
        let leaves = |tokens| hazard.leave_probability(begins_s + tokens / offer.decode_tps);
        let rebuild_s = takers.of(candidate.peer).map_or(0.0, |taker| {
            f64::from(question.work.context_tokens) / taker.offer().prefill_tps + parameters.overheads.recompute_s
        });
        let least_loss_s = parameters.overheads.detection_s + parameters.prices.placement_loss_s.max(0.0) + rebuild_s;
        self.least_s(question, &offer) + question.residual.mean_of(leaves).max(0.0) * least_loss_s
    }

    /// What those who could take over are ranked by, of a peer that is taken to the part `utilisation`. As given: seconds to
    /// prefill a token, the fastest at that is taken. By the corrected rule: seconds until the context is prefilled, and what
    /// they are worth. Never less where the offer is worse or the utilisation greater, to the last bit.
    pub(super) fn taking_over_s(self, question: &Question<'_>, offer: &Offer, utilisation: f64) -> f64 {
        match self {
            Self::Given(_) => 1.0 / offer.prefill_tps,
            Self::Corrected(parameters) => {
                let second = 1.0 + parameters.prices.second(utilisation);
                second * (f64::from(question.work.context_tokens) / offer.prefill_tps) + offer.wait_s
            }
        }
    }
}

fn rates_of(offer: &Offer) -> PeerRates {
    PeerRates {
        decode_tps: offer.decode_tps,
        prefill_tps: offer.prefill_tps,
        bandwidth_bps: 0.0,
        kv_bytes_per_token: 0.0,
        room_tokens: u32::MAX,
    }
}

/// What is asked, as the corrected rule wants it.
pub(super) fn placing(question: &Question<'_>) -> Placing<idlewild_protocol::PeerId> {
    Placing { work: question.work, residual: question.residual, held: question.held, queued_at: None }
}
