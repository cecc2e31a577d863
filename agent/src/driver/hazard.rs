//! What the command line is told of this peer's own forecasts.

use idlewild_coordinator::hazard::scores::{Binary, brier, calibration_error, reliability};
use idlewild_protocol::HORIZONS_S as CURVE_S;
use tokio::sync::oneshot;

use super::Driver;
use super::presence::Note;
use super::survival::{OwnSurvival, Prior};
use crate::api::wire::{CalibrationReply, CurvePoint, HazardReply, LeavesReply, ReliabilityReply};
use crate::config::OwnerChoice;
use crate::owner::{HORIZONS_S, outcomes};
use crate::store::{ForecastRecord, SessionRecord, StoreError};

impl Driver {
    /// Answers beside the loop, which does not wait for the disk; with `is_changed`, once the writer has estimated anew.
    pub(super) fn tell_hazard(&self, reply: oneshot::Sender<Result<HazardReply, StoreError>>, is_changed: bool) {
        let age_s = self.tracker.age(self.now()).map(|age| age.as_secs_f64());
        let (store, estimates, notes) = (self.store.clone(), self.estimates.clone(), self.notes.clone());
        tokio::spawn(async move {
            if is_changed {
                let (done, told) = oneshot::channel();
                // The writer is gone only when the agent is.
                if notes.send(Note::Reread(done)).await.is_ok() {
                    told.await.ok();
                }
            }
            let told = store.forecasts().await.map(|forecasts| {
                let estimate = estimates.borrow();
                HazardReply { is_running: true, ..reply_of(&estimate, age_s, &forecasts) }
            });
            // An asker that went away needs no answer.
            reply.send(told).ok();
        });
    }
}

/// The same from what is on record, where no agent runs: a session that is open there was cut off.
pub fn recorded_hazard(source: OwnerChoice, sessions: &[SessionRecord], forecasts: &[ForecastRecord]) -> HazardReply {
    let closed: Vec<SessionRecord> = sessions
        .iter()
        .map(|session| SessionRecord {
            ended_s: session.ended_s.or(Some(session.started_s + session.length_s as u64)),
            ..session.clone()
        })
        .collect();
    reply_of(&OwnSurvival::fit(Prior::of(source), &closed), None, forecasts)
}

fn reply_of(estimate: &OwnSurvival, age_s: Option<f64>, forecasts: &[ForecastRecord]) -> HazardReply {
    let outlook = estimate.outlook(age_s.unwrap_or(0.0));
    HazardReply {
        is_running: false,
        sessions: estimate.sessions(),
        age_s,
        factor: estimate.theta(),
        is_unused: estimate.prior() == Prior::Unused,
        leaves: HORIZONS_S.map(|within_s| LeavesReply { within_s, probability: 1.0 - outlook.stays(within_s) }).into(),
        curve: CURVE_S.map(|t_s| CurvePoint { t_s, stays: outlook.stays(t_s) }).into(),
        calibration: (0..HORIZONS_S.len()).map(|horizon| calibration(horizon, &outcomes(forecasts, horizon))).collect(),
    }
}

fn calibration(horizon: usize, forecasts: &[Binary]) -> CalibrationReply {
    let happened = forecasts.iter().filter(|forecast| forecast.happened).count();
    CalibrationReply {
        within_s: HORIZONS_S[horizon],
        forecasts: forecasts.len(),
        happened: happened as f64 / forecasts.len().max(1) as f64,
        calibration_error: calibration_error(forecasts),
        brier: brier(forecasts),
        groups: reliability(forecasts)
            .into_iter()
            .map(|group| ReliabilityReply {
                from: group.from,
                to: group.to,
                forecasts: group.forecasts,
                predicted: group.predicted,
                observed: group.observed,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_record_answers_where_no_agent_runs() {
        let reply = recorded_hazard(OwnerChoice::Scripted, &[], &[]);
        assert_eq!((reply.sessions, reply.age_s, reply.is_running, reply.is_unused), (0, None, false, false));
        assert!((0.9..1.1).contains(&reply.factor), "{}", reply.factor);
        assert_eq!(reply.leaves.iter().map(|leaves| leaves.within_s).collect::<Vec<_>>(), [60.0, 300.0, 1800.0]);
        assert!(reply.leaves.is_sorted_by(|a, b| a.probability < b.probability));
        assert!(reply.curve.is_sorted_by(|a, b| a.t_s < b.t_s && a.stays >= b.stays));
        assert!(reply.calibration.iter().all(|of| of.forecasts == 0 && of.groups.is_empty()));
        assert!(recorded_hazard(OwnerChoice::AlwaysIdle, &[], &[]).is_unused);
    }

    #[test]
    fn forecasts_are_set_against_what_happened() {
        let forecast =
            |length_s, has_ended| ForecastRecord { age_s: 60.0, leaves: [0.1, 0.3, 0.9], length_s, has_ended };
        let forecasts = [forecast(70.0, true), forecast(200.0, true), forecast(4000.0, false), forecast(70.0, false)];
        let reply = recorded_hazard(OwnerChoice::Scripted, &[], &forecasts);
        let seen: Vec<_> = reply.calibration.iter().map(|of| (of.forecasts, of.happened)).collect();
        assert_eq!(seen, [(3, 1.0 / 3.0), (3, 2.0 / 3.0), (3, 2.0 / 3.0)]);
        let group = reply.calibration[1].groups[0];
        assert_eq!((group.from, group.to, group.forecasts), (0.2, 0.4, 3));
        assert!((group.predicted - 0.3).abs() < 1e-12 && (group.observed - 2.0 / 3.0).abs() < 1e-12);
    }
}
