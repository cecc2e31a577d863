//! Where a request begins, or begins again, by the corrected rule.
//!
//! E = T + L + what it takes from those that run there already. L is exact, averaged over the residual output, with the
//! loss weight of placement: where a request begins is chosen once, and costs nothing to choose well.

use super::{Fallback, Fallbacks, Host, OverlappedParameters};
use crate::cost::{DepartureCurve, Remainder, Residual, Takeover, Terms, Work};
use crate::policy::placement::{choose_least, misfit_of};
use crate::policy::{Assessment, Placement, Verdict};

/// What is to be placed, as it really stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placing<K> {
    /// Fresh, or an orphan with the context that it has.
    pub work: Work,
    /// R.
    pub residual: Residual,
    /// Who holds how many tokens of its context already: a standby that outlived the source.
    pub held: Option<(K, u32)>,
    /// Where it waits now; none for one that waits nowhere. Its wait there is that of its place in the queue.
    pub queued_at: Option<K>,
}

impl<K> Placing<K> {
    /// Work of which no more than an estimate of its length is known.
    pub fn new(work: Work) -> Self {
        Self { work, residual: Residual::exactly(work.remaining_tokens()), held: None, queued_at: None }
    }

    /// Tokens of its context that `host` lacks.
    fn prefill_tokens(&self, host: &Host<'_, K>) -> f64
    where
        K: PartialEq,
    {
        let held = self.held.as_ref().filter(|(at, _)| *at == host.id).map_or(0, |(_, tokens)| *tokens);
        f64::from(self.work.prefill_tokens.saturating_sub(held))
    }
}

/// The host with the least E among those that can take the work, the first of equals. A request that waits goes elsewhere
/// only if that is better by more than the limit: queues change from one look to the next.
pub fn place<K: Copy + PartialEq>(
    placing: &Placing<K>,
    hosts: &[Host<'_, K>],
    parameters: &OverlappedParameters,
) -> Placement<K> {
    let fallbacks = Fallbacks::rank(hosts.iter(), f64::from(placing.work.context_tokens), &parameters.prices);
    let assess = |host: &Host<'_, K>| {
        let fallback = fallbacks.of(host.id, host.site);
        let verdict = match misfit_of(&host.rates, &placing.work) {
            Some(misfit) => Verdict::Unfit(misfit),
            None => Verdict::Fit(placement_terms(placing, host, fallback, parameters)),
        };
        Assessment { peer: host.id, fallback: fallback.map(|fallback| fallback.peer), verdict }
    };
    let best = choose_least(hosts.iter().map(assess).collect(), Terms::expected_s);
    stay_in_queue(placing, best, parameters.limits.requeue_gain_s)
}

fn stay_in_queue<K: Copy + PartialEq>(placing: &Placing<K>, best: Placement<K>, gain_s: f64) -> Placement<K> {
    let expected_s = |id: K| {
        let assessment = best.assessed.iter().find(|assessment| assessment.peer == id);
        assessment.and_then(Assessment::terms).map(Terms::expected_s)
    };
    let here = placing.queued_at.and_then(|id| Some((id, expected_s(id)?)));
    match (here, best.chosen.and_then(expected_s)) {
        (Some((id, here_s)), Some(best_s)) if here_s - best_s <= gain_s => Placement { chosen: Some(id), ..best },
        (Some(_) | None, _) => best,
    }
}

/// The terms of the work on `host`.
pub fn placement_terms<K: Copy + PartialEq>(
    placing: &Placing<K>,
    host: &Host<'_, K>,
    fallback: Option<Fallback<K>>,
    parameters: &OverlappedParameters,
) -> Terms {
    let (rates, wait_s) = (&host.rates, host.known_wait_s());
    let prefill_s = placing.prefill_tokens(host) / rates.prefill_tps;
    let remainder =
        Remainder { residual: placing.residual, decode_tps: rates.decode_tps, begins_s: wait_s + prefill_s };
    let time_s = remainder.mean_time_s();
    let departures = DepartureCurve::new(&host.hazard, remainder.horizon_s());
    let (overheads, sigma_s) = (&parameters.overheads, parameters.prices.placement_loss_s);
    let context_tokens = f64::from(placing.work.context_tokens);
    let (takeover, rebuild_decode_tps) = match fallback {
        Some(Fallback { rebuild, .. }) => {
            let cold = Takeover::cold(context_tokens, rates.decode_tps, &rebuild, sigma_s, overheads);
            (Takeover { growth_from_s: remainder.begins_s, ..cold }, rebuild.decode_tps)
        }
        None => (Takeover::restart(time_s, sigma_s, overheads), rates.decode_tps),
    };
    Terms {
        wait_s,
        service_s: time_s - wait_s,
        loss_s: remainder.loss_s(&departures, &takeover, rebuild_decode_tps),
        leave_probability: remainder.leave_probability(&departures),
        slowdown_s: placing.residual.mean_of(|tokens| host.batch.slowdown_s(tokens)),
    }
}
