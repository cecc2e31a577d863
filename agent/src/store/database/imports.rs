//! Sessions that were seen before this program ran here: all of a table, or none.

use idlewild_protocol::DepartureCause;
use rusqlite::{Connection, params};

use super::sessions::{cause_name, week_of};
use super::{MAX_SESSIONS, Store, StoreError};

/// Sessions are on record to the second: two that share less do not overlap.
const TOLERANCE_MS: i64 = 1000;

/// The boot of sessions that were imported.
const NO_BOOT: i64 = 0;

/// A session to import.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportedSession {
    /// Of the table that it stands in, for messages.
    pub line: usize,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it lasted, in milliseconds.
    pub length_ms: u64,
    /// Why it ended; none where its end was not seen.
    pub cause: Option<DepartureCause>,
}

/// Why nothing was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportRefused {
    /// A session is there already.
    #[error("line {line}: this session is on record already; nothing was imported")]
    Known {
        /// Where.
        line: usize,
    },
    /// A session contradicts one on record.
    #[error(
        "line {line}: this session overlaps one on record, which began at {started_s} s since 1970; nothing was imported"
    )]
    Overlaps {
        /// Where.
        line: usize,
        /// When the other began.
        started_s: i64,
    },
    /// There would be too many.
    #[error("{room} more sessions fit on record, and the table has {wanted}; nothing was imported")]
    TooMany {
        /// As many are free.
        room: usize,
        /// As many were to come.
        wanted: usize,
    },
}

/// A session on record, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Span {
    started_ms: i64,
    ended_ms: i64,
}

impl Store {
    /// Puts sessions on record that have ended, which must not overlap each other: all of them, or none.
    pub async fn import_sessions(
        &self,
        sessions: Vec<ImportedSession>,
    ) -> Result<Result<usize, ImportRefused>, StoreError> {
        self.call(move |connection| {
            let change = connection.transaction()?;
            let known = spans(&change)?;
            if let Err(refused) = check(&known, &sessions) {
                return Ok(Err(refused));
            }
            let sql = format!(
                "INSERT INTO sessions (boot, started_s, length_ms, ended_s, cause, week_s)
                 VALUES (?1, ?2, ?3, ?4, ?5, {})",
                week_of("?2"),
            );
            {
                let mut insert = change.prepare(&sql)?;
                for session in &sessions {
                    let ended_ms = session.started_ms + session.length_ms;
                    insert.execute(params![
                        NO_BOOT,
                        (session.started_ms / 1000).cast_signed(),
                        session.length_ms.cast_signed(),
                        (ended_ms / 1000).cast_signed(),
                        session.cause.map(cause_name),
                    ])?;
                }
            }
            change.commit()?;
            Ok(Ok(sessions.len()))
        })
        .await
    }
}

/// What is on record, by its beginning. The live session counts as far as its last beat.
fn spans(connection: &Connection) -> rusqlite::Result<Vec<Span>> {
    let sql = "SELECT started_s * 1000, started_s * 1000 + length_ms FROM sessions ORDER BY started_s, id";
    let read = |row: &rusqlite::Row<'_>| Ok(Span { started_ms: row.get(0)?, ended_ms: row.get(1)? });
    connection.prepare(sql)?.query_map([], read)?.collect()
}

fn check(known: &[Span], sessions: &[ImportedSession]) -> Result<(), ImportRefused> {
    let room = (MAX_SESSIONS as usize).saturating_sub(known.len());
    if sessions.len() > room {
        return Err(ImportRefused::TooMany { room, wanted: sessions.len() });
    }
    // The one that ends last among those that begin no later.
    let mut last: Vec<Span> = Vec::with_capacity(known.len());
    for span in known {
        let before = last.last().copied().unwrap_or(*span);
        last.push(if before.ended_ms > span.ended_ms { before } else { *span });
    }
    for session in sessions {
        let from_ms = session.started_ms.cast_signed();
        let to_ms = from_ms + session.length_ms.cast_signed();
        let earlier = known.partition_point(|span| span.started_ms < to_ms.max(from_ms + 1));
        let Some(other) = earlier.checked_sub(1).and_then(|at| last.get(at)) else { continue };
        let is_same = |span: &Span| {
            (span.started_ms - from_ms).abs() < TOLERANCE_MS && (span.ended_ms - to_ms).abs() <= TOLERANCE_MS
        };
        if known[..earlier].iter().rev().take_while(|span| span.started_ms > from_ms - TOLERANCE_MS).any(is_same) {
            return Err(ImportRefused::Known { line: session.line });
        }
        if other.ended_ms - from_ms > TOLERANCE_MS && to_ms - other.started_ms > TOLERANCE_MS {
            return Err(ImportRefused::Overlaps { line: session.line, started_s: other.started_ms / 1000 });
        }
    }
    Ok(())
}
