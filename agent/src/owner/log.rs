//! Sessions on disk: what the hazard estimate of later days is made of.

use std::time::Duration;

use idlewild_protocol::BootId;

use super::SessionChange;
use crate::store::{OpenSession, SessionMoment, Store, StoreError};

/// Writes sessions down. A disk that fails is reported once and stops nothing: that session is then not on record.
#[derive(Debug)]
pub struct SessionLog {
    store: Store,
    boot: BootId,
    open: Option<OpenSession>,
    is_failing: bool,
}

impl SessionLog {
    /// Writes to `store` in the name of this boot.
    pub fn new(store: Store, boot: BootId) -> Self {
        Self { store, boot, open: None, is_failing: false }
    }

    /// Writes a change down, with what is known at that moment. Act on the change first: this waits for the disk.
    pub async fn record(&mut self, change: SessionChange, at: SessionMoment) {
        let outcome = match (change, self.open.take()) {
            (SessionChange::Began, _) => match self.store.begin_session(self.boot, at).await {
                Ok(session) => {
                    self.open = Some(session);
                    Ok(())
                }
                Err(e) => Err(e),
            },
            (SessionChange::Ended { cause, length }, Some(session)) => {
                self.store.end_session(session.id, at.wall_s, as_ms(length), cause).await
            }
            (SessionChange::Ended { .. }, None) => Ok(()),
        };
        self.report(outcome);
    }

    /// Writes down that the live session has lasted `age`.
    pub async fn beat(&mut self, age: Duration) {
        if let Some(session) = self.open {
            let outcome = self.store.beat_session(session.id, as_ms(age)).await;
            self.report(outcome);
        }
    }

    /// Writes down with which probabilities the live session, so old, was expected to end soon.
    pub async fn forecast(&mut self, age: Duration, leaves: [f64; 3]) {
        if let Some(session) = self.open {
            let outcome = self.store.record_forecast(session.id, as_ms(age), leaves).await;
            self.report(outcome);
        }
    }

    /// The session that is open on record; none outside a session, and where the disk did not take it.
    pub fn open(&self) -> Option<OpenSession> {
        self.open
    }

    fn report(&mut self, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.is_failing = false,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!(%error, "sessions are not recorded; serving goes on");
            }
            Err(_) => {}
        }
    }
}

fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::DepartureCause;

    use super::*;

    #[tokio::test]
    async fn a_session_is_on_record_with_its_length_and_cause() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("idlewild.db")).unwrap();
        let boot = store.begin_boot(100, None).await.unwrap();
        let mut log = SessionLog::new(store.clone(), boot.id);
        let at = SessionMoment { wall_s: 1000, on_ac: None };
        log.record(SessionChange::Began, at).await;
        log.forecast(Duration::from_secs(10), [0.1, 0.2, 0.3]).await;
        log.beat(Duration::from_secs(15)).await;
        let live = store.sessions().await.unwrap();
        assert_eq!((live.len(), live[0].length_s, live[0].is_observed()), (1, 15.0, false));
        let cause = DepartureCause::OwnerReturned;
        log.record(SessionChange::Ended { cause, length: Duration::from_millis(20_500) }, at).await;
        let done = store.sessions().await.unwrap();
        assert_eq!((done[0].length_s, done[0].cause), (20.5, Some(cause)));
        assert_eq!(store.forecasts().await.unwrap().len(), 1);
        assert!(!log.is_failing && log.open().is_none());
    }
}
