//! What knowing every departure would be worth, with preparation: the bound that the corrected rule is measured against.
//!
//! It is the NOTICE test with perfect notice. What it does not know is the future of queues and links, so that it bounds
//! what foresight of departures is worth, and nothing else.

use super::migration::StayReason;
use super::overlapped::{Because, Candidate, Decision, Host, Leaving, OverlappedParameters, RunningRequest, decide};
use super::{Fleet, Migration, OraclePlacement, Placement, Policy, Running};
use crate::cost::Work;
use crate::hazard::{Hazard, Survival};
use idlewild_protocol::DepartureCause;

/// Seconds ahead from which it acts. Later is too late for a long context over a slow link; earlier, a destination would
/// follow for nothing.
const LEAD_S: f64 = 60.0;

/// Places by [`OraclePlacement`]; prepares and hands over ahead of every departure, which it knows from
/// [`Host::known_remaining_s`]. A peer of which it is not known stays for ever.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OracleFull {
    /// Where requests begin.
    pub placement: OraclePlacement,
    /// What a move takes.
    pub overlapped: OverlappedParameters,
}

/// Leaves after so many seconds.
#[derive(Debug, Clone, Copy)]
struct LeavesAt(f64);

impl Survival for LeavesAt {
    fn survival(&self, t_s: f64) -> f64 {
        if t_s < self.0 { 1.0 } else { 0.0 }
    }
}

impl LeavesAt {
    fn of<K>(host: &Host<'_, K>) -> Self {
        Self(host.known_remaining_s.unwrap_or(f64::INFINITY))
    }

    fn on<K: Copy>(&self, host: Host<'_, K>) -> Host<'_, K> {
        Host { hazard: Hazard { curve: self, age_s: 0.0 }, ..host }
    }
}

impl<K: Copy + PartialEq> Policy<K> for OracleFull {
    fn name(&self) -> &'static str {
        "oracle_full"
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        self.placement.place(fleet, work)
    }

    fn should_migrate(&self, _: &Fleet<'_, K>, _: &Running<K>) -> Migration<K> {
        Migration::unexamined(StayReason::MovesOnlyWhatIsPrepared)
    }

    fn decide(&self, request: &RunningRequest<'_, K>) -> Decision<K> {
        let leaves = LeavesAt::of(&request.source);
        if leaves.0 > LEAD_S {
            return Decision::unexamined(Because::NotAsked);
        }
        let curves: Vec<LeavesAt> = request.candidates.iter().map(|candidate| LeavesAt::of(&candidate.host)).collect();
        let known = request.candidates.iter().zip(&curves);
        let candidates: Vec<_> =
            known.map(|(candidate, curve)| Candidate { host: curve.on(candidate.host), ..*candidate }).collect();
        let notice_ms = (leaves.0.max(0.0) * 1000.0) as u32;
        let leaving = Leaving::Announced { cause: DepartureCause::Unknown, notice_ms, decodes: true };
        let informed =
            RunningRequest { source: leaves.on(request.source), leaving, candidates: &candidates, ..*request };
        decide(&informed, &self.overlapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Path, PeerRates, Residual, Way};
    use crate::policy::overlapped::{Action, Standby};

    const RATES: PeerRates = PeerRates {
        decode_tps: 10.0,
        prefill_tps: 100.0,
        bandwidth_bps: 0.0,
        kv_bytes_per_token: 1e4,
        room_tokens: 8192,
    };

    const LINK: Path = Path { goodput_bps: 1e7, round_trip_s: 0.01, budget_bytes: None, has_same_layout: true };

    fn host(id: &'static str, remaining_s: Option<f64>) -> Host<'static, &'static str> {
        let hazard = Hazard { curve: &LeavesAt(1.0), age_s: 0.0 };
        Host { known_remaining_s: remaining_s, ..Host::new(id, RATES, hazard) }
    }

    #[test]
    fn it_moves_just_ahead_of_a_departure_to_one_that_stays() {
        let ready = Some(Standby { at: "stays", way: Way::PreCopy, lag_tokens: 5, is_paused: false });
        let (prepare, commit) = (
            Action::Prepare { destination: "stays", way: Way::PreCopy },
            Action::Commit { destination: "stays", way: Way::PreCopy },
        );
        for (remaining_s, standby, action) in [
            (None, None, Action::Stay),
            (Some(1000.0), None, Action::Stay),
            (Some(30.0), None, prepare),
            (Some(10.0), ready, commit),
        ] {
            let to = |host| Candidate { host, path: Some(LINK) };
            let candidates = [to(host("leaves soon too", Some(5.0))), to(host("stays", None))];
            let request = RunningRequest {
                source: host("source", remaining_s),
                context_tokens: 1000,
                residual: Residual::exactly(500),
                hops: 0,
                leaving: Leaving::Unannounced,
                standby,
                candidates: &candidates,
            };
            assert_eq!(OracleFull::default().decide(&request).action, action, "{remaining_s:?}");
        }
        let lasts = Host { known_remaining_s: Some(30.0), ..host("source", None) };
        let short = RunningRequest {
            source: lasts,
            context_tokens: 1000,
            residual: Residual::exactly(200),
            hops: 0,
            leaving: Leaving::Unannounced,
            standby: None,
            candidates: &[],
        };
        assert_eq!(OracleFull::default().decide(&short).because, Because::DoneBeforeNotice);
    }
}
