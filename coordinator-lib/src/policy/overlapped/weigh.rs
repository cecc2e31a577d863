//! The request where it is: what every candidate is weighed against.

use super::{Fallback, Fallbacks, Host, Leaving, OverlappedParameters, RunningRequest, Site, Standby, StayTerms};
use crate::cost::{DepartureCurve, Fixed, Remainder, Takeover, is_rate};

/// The decode rate of a source that has announced its departure before its rate was known, in tokens a second: slow, so
/// that nobody relies on its being done first.
const ASSUMED_DECODE_TPS: f64 = 1.0;

/// A request on its source, and the numbers that all tests share.
pub(super) struct Weighing<'a, K> {
    pub(super) request: &'a RunningRequest<'a, K>,
    pub(super) parameters: &'a OverlappedParameters,
    /// c.
    pub(super) context_tokens: f64,
    /// The rest of the request on the source.
    pub(super) remainder: Remainder,
    /// Departures of the source.
    pub(super) departures: DepartureCurve,
    /// Everybody's fallback.
    pub(super) fallbacks: Fallbacks<K>,
    /// The source's own.
    pub(super) fallback: Option<Fallback<K>>,
}

impl<'a, K: Copy + PartialEq> Weighing<'a, K> {
    /// None where the source's decode rate is unknown, and nothing forces a decision.
    pub(super) fn new(request: &'a RunningRequest<'a, K>, parameters: &'a OverlappedParameters) -> Option<Self> {
        let source = &request.source;
        let decode_tps = match request.leaving {
            _ if is_rate(source.rates.decode_tps) => source.rates.decode_tps,
            Leaving::Announced { .. } => ASSUMED_DECODE_TPS,
            Leaving::Unannounced => return None,
        };
        let context_tokens = f64::from(request.context_tokens);
        let hosts = request.candidates.iter().map(|candidate| &candidate.host).chain([source]);
        let fallbacks = Fallbacks::rank(hosts, context_tokens, &parameters.prices);
        let remainder = Remainder { residual: request.residual, decode_tps, begins_s: 0.0 };
        Some(Self {
            request,
            parameters,
            context_tokens,
            departures: DepartureCurve::new(&source.hazard, remainder.horizon_s()),
            fallback: fallbacks.of(source.id, source.site),
            remainder,
            fallbacks,
        })
    }

    /// d_i.
    pub(super) fn decode_tps(&self) -> f64 {
        self.remainder.decode_tps
    }

    /// Tokens that `host` lacks: what it reports as the standby, else all. Nobody lacks more than there is.
    pub(super) fn lag_tokens(&self, host: K) -> f64 {
        let reported = self.standby_at(host).map_or(f64::INFINITY, |standby| f64::from(standby.lag_tokens));
        reported.min(self.context_tokens)
    }

    /// The standby, if it is at `host`.
    pub(super) fn standby_at(&self, host: K) -> Option<Standby<K>> {
        self.request.standby.filter(|standby| standby.at == host)
    }

    /// Whether a preparation at `host` runs.
    pub(super) fn is_under_way(&self, host: K) -> bool {
        self.standby_at(host).is_some_and(|standby| !standby.is_paused)
    }

    /// The fixed part of what a departure costs where a standby takes over.
    pub(super) fn fixed(&self) -> Fixed<'a> {
        Fixed {
            is_announced: false,
            sigma_s: self.parameters.prices.move_loss_s,
            overheads: &self.parameters.overheads,
        }
    }

    /// U_cold of the source.
    pub(super) fn cold(&self) -> Takeover {
        self.cold_on(self.fallback, self.decode_tps(), self.remainder.mean_time_s())
    }

    /// U_cold of a peer with this fallback; without one the request begins anew: all of `time_s`.
    pub(super) fn cold_on(&self, fallback: Option<Fallback<K>>, decode_tps: f64, time_s: f64) -> Takeover {
        let (overheads, sigma_s) = (&self.parameters.overheads, self.parameters.prices.move_loss_s);
        match fallback {
            Some(fallback) => Takeover::cold(self.context_tokens, decode_tps, &fallback.rebuild, sigma_s, overheads),
            None => Takeover::restart(time_s, sigma_s, overheads),
        }
    }

    /// L on the source for a departure that costs `takeover` and goes on at `rebuild_decode_tps`; at its own rate where
    /// nobody is there to say another.
    pub(super) fn loss_s(&self, takeover: &Takeover, rebuild_decode_tps: Option<f64>) -> f64 {
        self.remainder.loss_s(&self.departures, takeover, rebuild_decode_tps.unwrap_or(self.decode_tps()))
    }

    /// The probability that `host` is still there at the end of the request on the source, and does not leave with it.
    pub(super) fn outlasts(&self, host: &Host<'_, K>) -> f64 {
        let leaves = host.hazard.leave_probability(self.remainder.mean_time_s());
        let together = Site::together(self.request.source.site, host.site);
        // What is not known to stay leaves.
        let stays = if leaves.is_nan() { 0.0 } else { 1.0 - leaves.clamp(0.0, 1.0) };
        stays * (1.0 - together)
    }

    /// The request where it is, with what `standby` would make of a departure.
    pub(super) fn stay(&self, standby: Option<(&Host<'_, K>, &Takeover)>) -> StayTerms {
        let cold_loss_s = self.loss_s(&self.cold(), self.fallback.map(|fallback| fallback.rebuild.decode_tps));
        let loss_s = standby.map_or(cold_loss_s, |(host, takeover)| {
            let prepared_s = self.loss_s(takeover, Some(host.rates.decode_tps)).min(cold_loss_s);
            let outlasts = self.outlasts(host);
            outlasts * prepared_s + (1.0 - outlasts) * cold_loss_s
        });
        StayTerms {
            time_s: self.remainder.mean_time_s(),
            leave_probability: self.remainder.leave_probability(&self.departures),
            cold_loss_s,
            loss_s,
        }
    }

    /// L on the fallback, should the source leave; 0 without one.
    pub(super) fn fallback_loss_s(&self) -> f64 {
        let hosts = || self.request.candidates.iter().map(|candidate| &candidate.host);
        let host = self.fallback.and_then(|fallback| hosts().find(|host| host.id == fallback.peer));
        host.map_or(0.0, |host| self.loss_on_s(host))
    }

    /// L after a move to `host`, whose queue comes first.
    pub(super) fn loss_on_s(&self, host: &Host<'_, K>) -> f64 {
        let (decode_tps, begins_s) = (host.rates.decode_tps, host.known_wait_s());
        let remainder = Remainder { residual: self.request.residual, decode_tps, begins_s };
        let departures = DepartureCurve::new(&host.hazard, remainder.horizon_s());
        let fallback = self.fallbacks.of(host.id, host.site);
        let cold = self.cold_on(fallback, decode_tps, remainder.mean_time_s());
        let takeover = Takeover { growth_from_s: begins_s, ..cold };
        let rebuild_tps = fallback.map_or(decode_tps, |fallback| fallback.rebuild.decode_tps);
        remainder.loss_s(&departures, &takeover, rebuild_tps)
    }
}
