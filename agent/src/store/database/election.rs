//! The election's memory: a peer that restarts must not vote twice in one term.

use idlewild_protocol::{PeerId, Term};
use rusqlite::{Connection, params};

use super::sessions::optional;
use super::{Store, StoreError};

impl Store {
    /// The last term, and whom this peer voted for in it. Term 0 and nobody where nothing is on record.
    pub async fn election(&self) -> Result<(Term, Option<PeerId>), StoreError> {
        self.call(|connection| {
            let sql = "SELECT term, voted_for FROM election";
            let row =
                connection.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?)));
            let (term, vote) = optional(row)?.unwrap_or_default();
            Ok((Term(term as u64), vote.map(PeerId)))
        })
        .await
    }

    /// Keeps term and vote. Must have returned before the vote is sent.
    pub async fn save_election(&self, term: Term, voted_for: Option<PeerId>) -> Result<(), StoreError> {
        self.call(move |connection| save(connection, term, voted_for)).await
    }
}

/// An older term never replaces a newer one.
fn save(connection: &mut Connection, term: Term, voted_for: Option<PeerId>) -> rusqlite::Result<()> {
    let sql = "INSERT INTO election (only, term, voted_for) VALUES (1, ?1, ?2)
               ON CONFLICT DO UPDATE SET term = excluded.term, voted_for = excluded.voted_for
               WHERE excluded.term >= term";
    connection.execute(sql, params![term.0.cast_signed(), voted_for.map(|peer| peer.0)]).map(|_| ())
}
