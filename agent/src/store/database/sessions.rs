//! Boots and sessions: the raw material of the hazard estimate. Never leaves this machine.

use idlewild_protocol::{BootId, DepartureCause};
use rusqlite::{Connection, Row, params};

use super::{Store, StoreError};

/// Sessions kept. At twenty a day, more than a year: older ones say little about the owner's present habits.
pub const MAX_SESSIONS: u32 = 10_000;

/// Boots kept, to number the next and to tell crashes.
const MAX_BOOTS: u32 = 100;

/// A session in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(pub(super) i64);

/// A start of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Boot {
    /// Greater than every earlier one.
    pub id: BootId,
    /// Sessions that the last agent did not live to close, closed now.
    pub interrupted: Vec<SessionRecord>,
}

/// A session that has just begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSession {
    /// Its name in the database.
    pub id: SessionId,
    /// Seconds since Monday, 00:00, by the local time then; none where that is not known.
    pub week_s: Option<u32>,
}

/// What is known of the machine when a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionMoment {
    /// Seconds since 1970 by the machine's clock.
    pub wall_s: u64,
    /// Whether it runs on mains; none if unknown.
    pub on_ac: Option<bool>,
}

/// A session as it is on record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionRecord {
    /// Seconds since 1970 when it began, for people only: clocks jump.
    pub started_s: u64,
    /// Seconds since 1970 when it ended; none while it lasts.
    pub ended_s: Option<u64>,
    /// How long it lasted, by the monotonic clock, in seconds.
    pub length_s: f64,
    /// Why it ended; none while it lasts, and where its end was not seen.
    pub cause: Option<DepartureCause>,
    /// Seconds since Monday, 00:00, by the local time when it began; none if unknown.
    pub week_s: Option<u32>,
    /// Whether the machine ran on mains when it began; none if unknown.
    pub on_ac: Option<bool>,
}

impl SessionRecord {
    /// Whether it still lasts, as far as is on record.
    pub fn is_live(&self) -> bool {
        self.ended_s.is_none()
    }

    /// Whether its end was seen. The live one's length is only a lower bound (right-censored).
    pub fn is_observed(&self) -> bool {
        self.cause.is_some()
    }
}

impl Store {
    /// Numbers this start and closes what the last one left open: by a crash where the machine has been up since,
    /// otherwise for an unknown cause (power, reset), in both cases at the last sign of life.
    pub async fn begin_boot(&self, now_s: u64, machine_boot: Option<String>) -> Result<Boot, StoreError> {
        self.call(move |connection| begin_boot(connection, now_s, machine_boot.as_deref())).await
    }

    /// Records that a session has begun. One that is open still, because its end could not be written, ends at its last
    /// beat, nobody knows why.
    pub async fn begin_session(&self, boot: BootId, moment: SessionMoment) -> Result<OpenSession, StoreError> {
        self.call(move |connection| {
            let change = connection.transaction()?;
            close_open(&change, DepartureCause::Unknown)?;
            let sql = format!(
                "INSERT INTO sessions (boot, started_s, length_ms, on_ac, week_s) VALUES (?1, ?2, 0, ?3, {})
                 RETURNING id, week_s",
                week_of("?2"),
            );
            let row = params![boot.0.cast_signed(), moment.wall_s.cast_signed(), moment.on_ac];
            let open = change
                .query_row(&sql, row, |row| Ok(OpenSession { id: SessionId(row.get(0)?), week_s: row.get(1)? }))?;
            forget_old(&change)?;
            change.commit()?;
            Ok(open)
        })
        .await
    }

    /// Records that the session still lasts: what a crash would leave behind.
    pub async fn beat_session(&self, session: SessionId, length_ms: u64) -> Result<(), StoreError> {
        self.call(move |connection| {
            let sql = "UPDATE sessions SET length_ms = ?2 WHERE id = ?1 AND ended_s IS NULL";
            connection.execute(sql, params![session.0, length_ms.cast_signed()]).map(|_| ())
        })
        .await
    }

    /// Records that the session has ended. A second end of the same session changes nothing.
    pub async fn end_session(
        &self,
        session: SessionId,
        now_s: u64,
        length_ms: u64,
        cause: DepartureCause,
    ) -> Result<(), StoreError> {
        self.call(move |connection| {
            let sql = "UPDATE sessions SET length_ms = ?2, ended_s = ?3, cause = ?4 WHERE id = ?1 AND ended_s IS NULL";
            connection
                .execute(sql, params![session.0, length_ms.cast_signed(), now_s.cast_signed(), cause_name(cause)])
                .map(|_| ())
        })
        .await
    }

    /// All sessions on record, the oldest first; the live one, if any, is the last.
    pub async fn sessions(&self) -> Result<Vec<SessionRecord>, StoreError> {
        self.call(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY ended_s IS NULL, started_s, id");
            connection.prepare(&sql)?.query_map([], session_of)?.collect()
        })
        .await
    }
}

/// What [`session_of`] reads.
const COLUMNS: &str = "started_s, ended_s, length_ms, cause, week_s, on_ac";

/// SQL for seconds since Monday, 00:00, by the local time, at the instant that `instant` holds; 1970 began on a Thursday.
pub(super) fn week_of(instant: &str) -> String {
    format!("(strftime('%s', {instant}, 'unixepoch', 'localtime') + 259200) % 604800")
}

/// Ends the session that is open, if one is, at its last beat.
fn close_open(change: &Connection, cause: DepartureCause) -> rusqlite::Result<Vec<SessionRecord>> {
    let sql = format!(
        "UPDATE sessions SET ended_s = started_s + length_ms / 1000, cause = ?1 WHERE ended_s IS NULL
         RETURNING {COLUMNS}"
    );
    change.prepare(&sql)?.query_map([cause_name(cause)], session_of)?.collect()
}

/// Keeps the latest [`MAX_SESSIONS`], the live one among them, and forecasts of no others: their numbers may come again.
fn forget_old(change: &Connection) -> rusqlite::Result<()> {
    let old = "DELETE FROM sessions WHERE id IN
               (SELECT id FROM sessions ORDER BY ended_s IS NULL DESC, started_s DESC, id DESC LIMIT -1 OFFSET ?1)";
    if change.execute(old, [MAX_SESSIONS])? > 0 {
        change.execute("DELETE FROM forecasts WHERE session NOT IN (SELECT id FROM sessions)", [])?;
    }
    Ok(())
}

fn begin_boot(connection: &mut Connection, now_s: u64, machine_boot: Option<&str>) -> rusqlite::Result<Boot> {
    let change = connection.transaction()?;
    let last: Option<(i64, Option<String>)> =
        optional(change.query_row("SELECT id, machine_boot FROM boots ORDER BY id DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        }))?;
    let id = last.as_ref().map_or(0, |(id, _)| id.saturating_add(1)).max(now_s.cast_signed());
    let same_machine_boot = machine_boot.is_some() && last.is_some_and(|(_, boot)| boot.as_deref() == machine_boot);
    let cause = if same_machine_boot { DepartureCause::Crash } else { DepartureCause::Unknown };
    let interrupted = close_open(&change, cause)?;
    change.execute(
        "INSERT INTO boots (id, started_s, machine_boot) VALUES (?1, ?2, ?3)",
        params![id, now_s.cast_signed(), machine_boot],
    )?;
    let keep = "DELETE FROM boots WHERE id NOT IN (SELECT id FROM boots ORDER BY id DESC LIMIT ?1)";
    change.execute(keep, [MAX_BOOTS])?;
    change.commit()?;
    Ok(Boot { id: BootId(id as u64), interrupted })
}

fn session_of(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let cause: Option<String> = row.get(3)?;
    Ok(SessionRecord {
        started_s: row.get::<_, i64>(0)? as u64,
        ended_s: row.get::<_, Option<i64>>(1)?.map(|s| s as u64),
        length_s: row.get::<_, i64>(2)? as f64 / 1000.0,
        cause: cause.map(|name| cause_of(&name)),
        week_s: row.get(4)?,
        on_ac: row.get(5)?,
    })
}

/// No row is an answer too.
pub(super) fn optional<T>(result: rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
    rusqlite::OptionalExtension::optional(result)
}

const CAUSES: [(DepartureCause, &str); 8] = [
    (DepartureCause::OwnerReturned, "owner_returned"),
    (DepartureCause::Sleep, "sleep"),
    (DepartureCause::Shutdown, "shutdown"),
    (DepartureCause::Battery, "battery"),
    (DepartureCause::Rule, "rule"),
    (DepartureCause::Network, "network"),
    (DepartureCause::Crash, "crash"),
    (DepartureCause::Unknown, "unknown"),
];

/// What a cause is called in the database and in tables to import.
pub(super) fn cause_name(cause: DepartureCause) -> &'static str {
    CAUSES.iter().find(|(known, _)| *known == cause).map_or("unknown", |(_, name)| name)
}

fn cause_of(name: &str) -> DepartureCause {
    named_cause(name).unwrap_or(DepartureCause::Unknown)
}

/// The cause of this name, such as `owner_returned`; none where there is none.
pub fn named_cause(name: &str) -> Option<DepartureCause> {
    CAUSES.iter().find(|(_, known)| *known == name).map(|(cause, _)| *cause)
}

/// The names of all causes.
pub fn cause_names() -> impl Iterator<Item = &'static str> {
    CAUSES.iter().map(|(_, name)| *name)
}
