//! An agent that remembers a life it has not had.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::Cluster;

/// Sessions on record: many, so that they outweigh what is believed of an unknown machine.
const SESSIONS: u32 = 100;

/// From the beginning of one to that of the next: longer than any, and at another hour each time, so that it makes no difference
/// at what hour a test runs.
const APART: Duration = Duration::from_hours(13);

/// What an agent remembers of its owner: sessions that each ended with a return.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// The shortest of them.
    pub shortest: Duration,
    /// By how much each is longer than the one before.
    pub step: Duration,
}

impl History {
    /// Nobody came back for hours, at any time of a night.
    pub const NIGHTS: Self = Self { shortest: Duration::from_hours(8), step: Duration::from_mins(1) };

    /// The owner is back within half a minute, at any time of it.
    pub const MOMENTS: Self = Self { shortest: Duration::from_secs(1), step: Duration::from_millis(300) };
}

impl Cluster {
    /// Gives the agent at `at` that history, and starts it again.
    pub fn remember(&mut self, at: usize, history: History) -> Result<()> {
        let agent = &mut self.0[at];
        agent.stop()?;
        let path = agent.launch().home_path().join("data/idlewild.db");
        let mut database = rusqlite::Connection::open(path).context("open the database")?;
        let change = database.transaction()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock after 1970")?;
        for number in 0..SESSIONS {
            let length = history.shortest + history.step * number;
            let started = now.saturating_sub(APART * (SESSIONS - number));
            let ended_s = i64::try_from((started + length).as_secs())?;
            let (started_s, length_ms) = (i64::try_from(started.as_secs())?, i64::try_from(length.as_millis())?);
            change.execute(
                "INSERT INTO sessions (boot, started_s, length_ms, ended_s, cause) VALUES (0, ?1, ?2, ?3, 'owner_returned')",
                (started_s, length_ms, ended_s),
            )?;
        }
        change.commit().context("write the sessions")?;
        self.again(at)
    }
}
