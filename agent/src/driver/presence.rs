//! The owner's comings and goings: the gate at once, the digest next, the disk last.

use std::time::Duration;

use idlewild_protocol::{DepartureCause, PeerState};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::Driver;
use super::survival::{OwnSurvival, Prior};
use crate::owner::{SessionChange, SessionInput, SessionLog};
use crate::store::{Store, StoreError};
use crate::worker::Gate;

/// Notes that may wait for the disk: a few a day come, and a beat every 15 s.
const NOTES: usize = 32;

/// Something for the session log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Note {
    /// A session began or ended.
    Change(SessionChange),
    /// The live one has lasted so long.
    Beat(Duration),
}

/// Writes sessions down beside the driver, which never waits for the disk, and estimates anew after each.
pub(super) fn start_writer(
    mut log: SessionLog,
    store: Store,
    prior: Prior,
) -> (mpsc::Sender<Note>, watch::Receiver<OwnSurvival>, tokio::task::JoinHandle<()>) {
    let (notes, mut incoming) = mpsc::channel(NOTES);
    let (estimate, estimates) = watch::channel(OwnSurvival::fit(prior, &[]));
    let task = tokio::spawn(async move {
        refit(&store, prior, &estimate).await;
        while let Some(note) = incoming.recv().await {
            match note {
                Note::Beat(age) => log.beat(age).await,
                Note::Change(change) => {
                    log.record(change).await;
                    if matches!(change, SessionChange::Ended { .. }) {
                        refit(&store, prior, &estimate).await;
                    }
                }
            }
        }
    });
    (notes, estimates, task)
}

async fn refit(store: &Store, prior: Prior, estimate: &watch::Sender<OwnSurvival>) {
    let sessions: Result<_, StoreError> = store.sessions().await;
    match sessions {
        Ok(sessions) => drop(estimate.send_replace(OwnSurvival::fit(prior, &sessions))),
        Err(error) => warn!(%error, "past sessions cannot be read; the estimate stays as it is"),
    }
}

impl Driver {
    /// Applies an input to the session, and what follows from it. Where it ends the session, contexts are kept for others
    /// for `notice_ms` more milliseconds.
    pub(super) fn change_session(&mut self, input: SessionInput, notice_ms: u32) {
        let Some(change) = self.tracker.handle(self.now(), input) else { return };
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
        self.note(Note::Change(change));
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
