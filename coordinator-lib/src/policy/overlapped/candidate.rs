//! One candidate's terms.

use super::commit::CommitTest;
use super::hold::HoldTest;
use super::notice::{NoticeTest, decoding_stall_s, stopped_stall_s};
use super::prepare::{PrepareCost, PrepareTest};
use super::veto::{Scruples, Veto};
use super::way::from_here;
use super::weigh::Weighing;
use super::{Candidate, CandidateTerms, Host, Leaving, StayTerms};
use crate::cost::{Overheads, Preparation, Route, Takeover, Way, context_at_failure_tokens, keep_up_s, round_s};

/// A candidate that could prepare, and how.
pub(super) struct Destination<'w, 'a, K> {
    weighing: &'w Weighing<'a, K>,
    candidate: &'w Candidate<'a, K>,
    route: Route,
    /// From where it stands.
    preparation: Preparation,
}

/// The terms of `candidate`. `stay` is what they are compared with.
pub(super) fn terms<K: Copy + PartialEq>(
    weighing: &Weighing<'_, K>,
    candidate: &Candidate<'_, K>,
    stay: &StayTerms,
) -> CandidateTerms<K> {
    let nothing = |veto| CandidateTerms {
        host: candidate.host.id,
        veto: Some(veto),
        preparation: None,
        loss_s: None,
        prepare: None,
        commit: None,
        hold: None,
        notice: None,
    };
    match Destination::new(weighing, candidate) {
        Ok(destination) => destination.terms(stay),
        Err(veto) => nothing(veto),
    }
}

impl<'w, 'a, K: Copy + PartialEq> Destination<'w, 'a, K> {
    /// Or why it cannot be one.
    pub(super) fn new(weighing: &'w Weighing<'a, K>, candidate: &'w Candidate<'a, K>) -> Result<Self, Veto> {
        let (request, host) = (weighing.request, &candidate.host);
        if !host.rates.is_measured() {
            return Err(Veto::NotMeasured);
        }
        let path = candidate.path.ok_or(Veto::NoPath)?;
        let to_come_tokens = request.residual.mean_tokens();
        if f64::from(host.rates.room_tokens) < weighing.context_tokens + to_come_tokens {
            return Err(Veto::NoRoom);
        }
        let (lag_tokens, kv_bytes_per_token) = (weighing.lag_tokens(host.id), request.source.rates.kv_bytes_per_token);
        let decodes = !matches!(request.leaving, Leaving::Announced { decodes: false, .. });
        let kv_tps = path.kv_tps(kv_bytes_per_token, lag_tokens + to_come_tokens);
        let route = Route {
            context_tokens: lag_tokens,
            decode_tps: if decodes { weighing.decode_tps() } else { 0.0 },
            prefill_tps: host.rates.prefill_tps,
            kv_tps,
            kv_bytes_per_token: if kv_tps > 0.0 { kv_bytes_per_token } else { 0.0 },
            round_trip_s: if path.round_trip_s > 0.0 { path.round_trip_s } else { 0.0 },
            round_s: round_s(host.rates.decode_tps, host.rates.prefill_tps),
        };
        let preparation = from_here(weighing, host, &route).ok_or(Veto::CannotKeepUp)?;
        Ok(Self { weighing, candidate, route, preparation })
    }

    fn host(&self) -> &Host<'a, K> {
        &self.candidate.host
    }

    fn terms(&self, stay: &StayTerms) -> CandidateTerms<K> {
        let loss_s = self.weighing.loss_on_s(self.host());
        let standby = self.weighing.standby_at(self.host().id);
        // One destination at a time: another is weighed once the standby is given up.
        let may_prepare = standby.is_some() || self.weighing.request.standby.is_none();
        CandidateTerms {
            host: self.host().id,
            veto: self.veto(),
            preparation: Some(self.preparation),
            loss_s: Some(loss_s),
            prepare: may_prepare.then(|| self.prepare(stay)),
            commit: standby.map(|_| self.commit(stay, loss_s)),
            hold: standby.map(|_| self.hold(stay)),
            notice: self.notice(loss_s),
        }
    }

    fn veto(&self) -> Option<Veto> {
        let (request, limits) = (self.weighing.request, &self.weighing.parameters.limits);
        let scruples = Scruples {
            queued: self.host().queued,
            utilisation: self.host().utilisation,
            hops: request.hops,
            soon_done_s: self.weighing.remainder.time_s(request.residual.soon_tokens()),
            ready_s: if self.is_ready() { 0.0 } else { self.preparation.ready_s },
        };
        scruples.veto(limits)
    }

    fn is_ready(&self) -> bool {
        self.route.context_tokens <= self.weighing.parameters.overheads.lag_limit_tokens(self.route.decode_tps)
    }

    /// U if this destination goes on preparing.
    pub(super) fn prepared(&self) -> Takeover {
        let (weighing, route) = (self.weighing, &self.route);
        if self.is_ready() && weighing.is_under_way(self.host().id) {
            return Takeover::warm(route.context_tokens, route.prefill_tps, weighing.fixed());
        }
        Takeover::preparing(route, &self.preparation, weighing.fixed())
    }

    /// U if it keeps what it has and follows no more.
    fn paused(&self) -> Takeover {
        let route = &self.route;
        Takeover::part(route.context_tokens, route.decode_tps, 0.0, route.prefill_tps, self.weighing.fixed())
    }

    /// U as things stand, if this is the standby.
    pub(super) fn as_it_is(&self) -> Takeover {
        if self.weighing.is_under_way(self.host().id) { self.prepared() } else { self.paused() }
    }

    fn prepare(&self, stay: &StayTerms) -> PrepareTest {
        let (weighing, parameters) = (self.weighing, self.weighing.parameters);
        let stall_s = |takeover: &Takeover| weighing.remainder.stall_s(&weighing.departures, takeover);
        let cold_s = stall_s(&weighing.cold());
        let without_s = match weighing.standby_at(self.host().id) {
            Some(_) => stall_s(&self.paused()).min(cold_s),
            None => cold_s,
        };
        let saved_s = (without_s - stall_s(&self.prepared())) * weighing.outlasts(self.host());
        let gain_tps = self.preparation.gain_tps;
        let cost = PrepareCost {
            destination_s: keep_up_s(self.route.context_tokens, self.route.decode_tps, stay.time_s, gain_tps),
            second: parameters.prices.second(self.host().utilisation),
            leave_probability: stay.leave_probability,
            bytes_s: parameters.prices.byte_s * self.preparation.bytes,
        };
        let share = if weighing.is_under_way(self.host().id) { parameters.limits.go_on_share } else { 1.0 };
        PrepareTest::new(saved_s, &cost, share)
    }

    fn hold(&self, stay: &StayTerms) -> HoldTest {
        let (decode_tps, parameters) = (self.weighing.decode_tps(), self.weighing.parameters);
        let second = parameters.prices.second(self.host().utilisation);
        HoldTest {
            leave_probability: stay.leave_probability,
            context_at_failure_tokens: context_at_failure_tokens(self.weighing.context_tokens, decode_tps, stay.time_s),
            following_tokens: parameters.limits.hold_share * second * decode_tps * stay.time_s,
        }
    }

    fn commit(&self, stay: &StayTerms, move_loss_s: f64) -> CommitTest {
        let (weighing, host) = (self.weighing, self.host());
        let (overheads, limits) = (&weighing.parameters.overheads, &weighing.parameters.limits);
        let warm = Takeover::warm(self.route.context_tokens, self.route.prefill_tps, weighing.fixed());
        let stay_loss_s = weighing.loss_s(&warm, Some(host.rates.decode_tps));
        let stall_s = hand_off_stall_s(self.preparation.way, &self.route, overheads);
        let error_s =
            (weighing.request.source.known_loss_error() * stay_loss_s).hypot(host.known_loss_error() * move_loss_s);
        let slower_s =
            weighing.request.residual.mean_tokens() * (1.0 / host.rates.decode_tps - 1.0 / weighing.decode_tps());
        CommitTest {
            lag_tokens: self.route.context_tokens,
            lag_limit_tokens: overheads.lag_limit_tokens(self.route.decode_tps),
            stall_s,
            stay_loss_s,
            move_loss_s,
            risk_limit_s: limits.risk_limit_s(error_s),
            delay_s: stall_s + slower_s + host.known_wait_s(),
            time_limit_s: limits.time_limit_s(stay.time_s),
        }
    }

    /// U_q against the reactive way: begin anew on the fallback when the source has gone.
    fn notice(&self, loss_s: f64) -> Option<NoticeTest> {
        let Leaving::Announced { notice_ms, decodes, .. } = self.weighing.request.leaving else { return None };
        let (notice_s, overheads) = (f64::from(notice_ms) / 1000.0, &self.weighing.parameters.overheads);
        let hand_off_s = if decodes {
            decoding_stall_s(&self.route, &self.preparation, notice_s, overheads)
        } else {
            stopped_stall_s(&self.route, notice_s, overheads)
        };
        let stall_s = hand_off_s + self.host().known_wait_s();
        let fallback_loss_s = self.weighing.fallback_loss_s();
        let reactive_s = self.weighing.cold().cost_s(if decodes { notice_s } else { 0.0 }) + fallback_loss_s;
        Some(NoticeTest { stall_s, loss_s, gain_s: reactive_s - stall_s - loss_s })
    }
}

/// S: seconds of stall while what the destination lacks gets there.
fn hand_off_stall_s(way: Way, route: &Route, overheads: &Overheads) -> f64 {
    let last_tps = match way {
        Way::Ids => route.prefill_tps,
        Way::PreCopy => route.kv_tps,
        Way::Hybrid | Way::StoppedSplit => route.kv_tps.max(route.prefill_tps),
    };
    overheads.hand_off_s + route.round_trip_s + route.context_tokens / last_tps
}
