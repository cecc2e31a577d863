//! The owner's comings and goings: the gate at once, the digest next, the disk last.

use std::time::Duration;

use idlewild_protocol::{DepartureCause, PeerState};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::Driver;
use super::survival::{Beginning, OwnSurvival, Prior};
use crate::owner::{HORIZONS_S, SessionChange, SessionInput, SessionLog};
use crate::store::{SessionMoment, Store, StoreError, unix_s};
use crate::worker::Gate;

/// Notes that may wait for the disk: a few a day come, and a beat every 15 s.
const NOTES: usize = 32;

/// Something for the session log.
#[derive(Debug)]
pub(super) enum Note {
    /// A session began or ended.
    Change(SessionChange, SessionMoment),
    /// The live one has lasted so long.
    Beat(Duration),
    /// So old, it was expected to end soon with these probabilities.
    Forecast(Duration, [f64; HORIZONS_S.len()]),
    /// The sessions on record have changed: estimate anew, then say so.
    Reread(oneshot::Sender<()>),
}

/// Writes sessions down beside the driver, which never waits for the disk, and estimates anew after each.
pub(super) fn start_writer(
    log: SessionLog,
    store: Store,
    prior: Prior,
) -> (mpsc::Sender<Note>, watch::Receiver<OwnSurvival>, tokio::task::JoinHandle<()>) {
    let (notes, mut incoming) = mpsc::channel(NOTES);
    let (estimate, estimates) = watch::channel(OwnSurvival::new(prior));
    let mut writer = Writer { log, store, prior, estimate };
    let task = tokio::spawn(async move {
        writer.refit().await;
        while let Some(note) = incoming.recv().await {
            writer.take(note).await;
        }
    });
    (notes, estimates, task)
}

/// What writes sessions down and learns from them.
struct Writer {
    log: SessionLog,
    store: Store,
    prior: Prior,
    estimate: watch::Sender<OwnSurvival>,
}

impl Writer {
    async fn take(&mut self, note: Note) {
        match note {
            Note::Beat(age) => self.log.beat(age).await,
            Note::Forecast(age, leaves) => self.log.forecast(age, leaves).await,
            Note::Change(change, at) => {
                self.log.record(change, at).await;
                self.learn(change, at);
            }
            Note::Reread(done) => {
                self.refit().await;
                // An asker that went away needs no answer.
                done.send(()).ok();
            }
        }
    }

    /// Takes a change into the estimate, whether or not the disk took it.
    fn learn(&self, change: SessionChange, at: SessionMoment) {
        let week_s = self.log.open().and_then(|open| open.week_s);
        self.estimate.send_modify(|estimate| match change {
            SessionChange::Began => {
                estimate.begin(Beginning { wall_s: at.wall_s as f64, week_s, on_ac: at.on_ac });
            }
            SessionChange::Ended { cause, length } => estimate.end(length.as_secs_f64(), Some(cause)),
        });
    }

    /// Estimates from all that is on record.
    async fn refit(&mut self) {
        let sessions: Result<_, StoreError> = self.store.sessions().await;
        match sessions {
            Ok(sessions) => drop(self.estimate.send_replace(OwnSurvival::fit(self.prior, &sessions))),
            Err(error) => warn!(%error, "past sessions cannot be read; the estimate stays as it is"),
        }
    }
}

impl Driver {
    /// Applies an input to the session, and what follows from it. Where it ends the session, contexts are kept for others
    /// for `notice_ms` more milliseconds.
    pub(super) fn change_session(&mut self, input: SessionInput, notice_ms: u32) {
        if let Some(change) = self.tracker.handle(self.now(), input) {
            self.follow_session(change, notice_ms);
        }
    }

    /// Ends the session if the machine slept since the last sign of life. To be called before all else that happens.
    pub(super) fn notice_sleep(&mut self) {
        if let Some(change) = self.tracker.wake(self.now()) {
            self.follow_session(change, self.grace_ms);
        }
    }

    /// What the passing of time means for the session: one may begin after sleep, and ages and forecasts are kept.
    pub(super) fn pass_time(&mut self) {
        self.change_session(SessionInput::Tick, self.grace_ms);
        let now = self.now();
        if let Some(age) = self.tracker.beat(now) {
            self.note(Note::Beat(age));
        }
        if let Some(age) = self.tracker.checkpoint(now) {
            let outlook = self.estimates.borrow().outlook(age.as_secs_f64());
            self.note(Note::Forecast(age, HORIZONS_S.map(|horizon_s| 1.0 - outlook.stays(horizon_s))));
        }
    }

    fn follow_session(&mut self, change: SessionChange, notice_ms: u32) {
        match change {
            SessionChange::Began => {
                self.gate.send_replace(Gate::Open);
                info!("session began");
            }
            SessionChange::Ended { cause, length } => {
                self.gate.send_replace(Gate::Shut { cause, notice_ms });
                info!(?cause, length_s = length.as_secs(), "session ended");
            }
        }
        self.speak();
        self.note(Note::Change(change, SessionMoment { wall_s: unix_s(), on_ac: self.ruling.is_on_mains() }));
    }

    pub(super) fn note(&mut self, note: Note) {
        if self.notes.try_send(note).is_err() {
            warn!("the disk does not keep up: a session's record is incomplete");
        }
    }

    /// What the digest says.
    pub(super) fn state(&self) -> PeerState {
        // The agent for good, or the machine for a while.
        match self.leaving.map(|cause| (cause, self.notice_ms)).or(self.ruling.departing) {
            Some((cause, notice_ms)) => PeerState::Leaving { cause, notice_ms },
            None if self.tracker.is_serving() => PeerState::Serving,
            None => PeerState::Busy,
        }
    }

    /// The agent goes down: nothing new, and what runs is told.
    pub(super) fn leave(&mut self, cause: DepartureCause) {
        self.leaving = Some(cause);
        self.notice_ms = self.grace_ms;
        self.gate.send_replace(Gate::Shut { cause, notice_ms: self.notice_ms });
        self.change_session(SessionInput::Leaving { cause }, self.notice_ms);
        self.speak();
    }
}
