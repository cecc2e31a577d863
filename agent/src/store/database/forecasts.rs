//! Forecasts of sessions' ends, to be compared with what happened. Never leave this machine.
//!
//! A forecast's outcome is the session's: how long that lasted in the end, or has lasted so far. It needs no record of
//! its own, so that a crash between a departure and the writing down of outcomes cannot lose or bend one.

use rusqlite::params;

use super::{SessionId, Store, StoreError};

/// Forecasts kept: at seven a session some months of them.
pub const MAX_FORECASTS: u32 = 20_000;

/// A forecast, and what became of its session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForecastRecord {
    /// How old the session was, in seconds.
    pub age_s: f64,
    /// Probabilities of its end within 60, 300 and 1800 s.
    pub leaves: [f64; 3],
    /// How long it lasted, or has lasted as far as is on record, in seconds.
    pub length_s: f64,
    /// Whether it has ended.
    pub has_ended: bool,
}

impl Store {
    /// Records a forecast made when the live session was so old; the oldest of too many are forgotten.
    pub async fn record_forecast(&self, session: SessionId, age_ms: u64, leaves: [f64; 3]) -> Result<(), StoreError> {
        self.call(move |connection| {
            connection.execute(
                "INSERT INTO forecasts (session, age_ms, leaves_60s, leaves_300s, leaves_1800s)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![session.0, age_ms.cast_signed(), leaves[0], leaves[1], leaves[2]],
            )?;
            let last = connection.last_insert_rowid();
            let old = "DELETE FROM forecasts WHERE id <= ?1";
            connection.execute(old, [last - i64::from(MAX_FORECASTS)]).map(|_| ())
        })
        .await
    }

    /// All forecasts of sessions that are on record, the oldest first.
    pub async fn forecasts(&self) -> Result<Vec<ForecastRecord>, StoreError> {
        self.call(|connection| {
            let sql = "SELECT f.age_ms, f.leaves_60s, f.leaves_300s, f.leaves_1800s, s.length_ms, s.ended_s IS NOT NULL
                       FROM forecasts f JOIN sessions s ON s.id = f.session ORDER BY f.id";
            let read = |row: &rusqlite::Row<'_>| {
                Ok(ForecastRecord {
                    age_s: row.get::<_, i64>(0)? as f64 / 1000.0,
                    leaves: [row.get(1)?, row.get(2)?, row.get(3)?],
                    length_s: row.get::<_, i64>(4)? as f64 / 1000.0,
                    has_ended: row.get(5)?,
                })
            };
            connection.prepare(sql)?.query_map([], read)?.collect()
        })
        .await
    }
}
