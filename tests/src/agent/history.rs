//! An agent that remembers a life it has not had.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Cluster;

/// Sessions on record: many, so that they outweigh what is believed of an unknown machine.
const SESSIONS: u32 = 100;

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
        for number in 0..SESSIONS {
            let length = history.shortest + history.step * number;
            let (length_ms, ended_s) = (i64::try_from(length.as_millis())?, i64::try_from(length.as_secs())?);
            change.execute(
                "INSERT INTO sessions (boot, started_s, length_ms, ended_s, cause) VALUES (0, 0, ?1, ?2, 'owner_returned')",
                (length_ms, ended_s),
            )?;
        }
        change.commit().context("write the sessions")?;
        self.again(at)
    }
}
