//! What is in the database, and how an older one becomes a newer one.

use std::path::Path;

use rusqlite::Connection;

use super::{StoreError, explain};

/// Marks the file as ours (`idlw`).
const APPLICATION_ID: i64 = 0x6964_6c77;

/// Each element brings the schema from its index to the next; none is ever changed once it was released.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE boots (
        id INTEGER PRIMARY KEY,            -- BootId: rises with every start
        started_s INTEGER NOT NULL,        -- seconds since 1970
        machine_boot TEXT                  -- which start of the machine
    ) STRICT;
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        boot INTEGER NOT NULL,
        started_s INTEGER NOT NULL,        -- seconds since 1970, for people
        length_ms INTEGER NOT NULL,        -- by the monotonic clock, up to the last sign of life
        ended_s INTEGER,                   -- null while it lasts
        cause TEXT                         -- null while it lasts
    ) STRICT;
    CREATE INDEX sessions_open ON sessions (id) WHERE ended_s IS NULL;
    CREATE TABLE election (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        term INTEGER NOT NULL,
        voted_for BLOB
    ) STRICT;
    CREATE TABLE tickets (
        id BLOB PRIMARY KEY,
        secret BLOB NOT NULL,
        not_after_s INTEGER NOT NULL,
        used_by BLOB,                      -- null until it is redeemed
        used_s INTEGER
    ) STRICT;
    CREATE TABLE links (
        peer BLOB PRIMARY KEY,
        up_bytes_per_s INTEGER,
        down_bytes_per_s INTEGER,
        rtt_us INTEGER NOT NULL,
        measured_s INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE rates (
        model BLOB PRIMARY KEY,
        decode_tps REAL NOT NULL,
        prefill_tps REAL NOT NULL,
        kv_bytes_per_token INTEGER NOT NULL,
        load_ms INTEGER NOT NULL,
        measured_s INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE requests (
        id BLOB PRIMARY KEY,
        accepted_s INTEGER NOT NULL,
        story TEXT NOT NULL                -- JSON of ExplainReply: no prompt, no answer
    ) STRICT;
    CREATE INDEX requests_by_age ON requests (accepted_s);
",
    "
    ALTER TABLE sessions ADD COLUMN week_s INTEGER;  -- seconds since Monday, 00:00, local time, when it began
    ALTER TABLE sessions ADD COLUMN on_ac INTEGER;   -- 1 on mains, 0 on battery, when it began; null: unknown
    CREATE TABLE forecasts (                         -- of sessions' ends; their outcomes are those of the sessions
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        age_ms INTEGER NOT NULL,                     -- of the session when it was made
        leaves_60s REAL NOT NULL,                    -- probability of its end within so long
        leaves_300s REAL NOT NULL,
        leaves_1800s REAL NOT NULL
    ) STRICT;
",
    "
    ALTER TABLE rates ADD COLUMN decode_doubles_at INTEGER NOT NULL DEFAULT 0;   -- context that doubles a token's time;
    ALTER TABLE rates ADD COLUMN prefill_doubles_at INTEGER NOT NULL DEFAULT 0;  -- 0: not known
",
];

/// The schema as it was at an earlier version.
#[cfg(test)]
pub(super) fn create_version(connection: &Connection, version: usize) {
    for step in MIGRATIONS.iter().take(version) {
        connection.execute_batch(step).unwrap();
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    connection.pragma_update(None, "user_version", version.cast_signed() as i64).unwrap();
}

/// Brings the schema up to date, or says why not. Each step happens whole or not at all.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |e| explain(path, e);
    let known = MIGRATIONS.len().cast_signed() as i64;
    let pragma = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed)
    };
    let found = pragma(connection, "user_version")?;
    if found != 0 && pragma(connection, "application_id")? != APPLICATION_ID {
        return Err(StoreError::Damaged { path: path.to_owned() });
    }
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    for (version, step) in (1_i64..).zip(MIGRATIONS).skip(found.max(0) as usize) {
        let change = connection.transaction().map_err(failed)?;
        change.execute_batch(step).map_err(failed)?;
        change.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        change.pragma_update(None, "user_version", version).map_err(failed)?;
        change.commit().map_err(failed)?;
    }
    Ok(())
}
