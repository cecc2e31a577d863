//! The stories of the last requests, for `idlewild explain`. No prompt and no answer is ever among them.

use idlewild_protocol::RequestId;
use rusqlite::{Row, params};

use super::sessions::optional;
use super::{Store, StoreError};
use crate::api::wire::ExplainReply;

/// Stories kept; the oldest go first.
pub const MAX_REQUESTS: u32 = 1000;

impl Store {
    /// Keeps a request's story, in place of what was kept of it before.
    pub async fn record_request(&self, story: &ExplainReply) -> Result<(), StoreError> {
        let (id, accepted_s) = (story.request.0, story.accepted_s.cast_signed());
        let text = serde_json::to_string(story).unwrap_or_default();
        self.call(move |connection| {
            let sql = "INSERT OR REPLACE INTO requests (id, accepted_s, story) VALUES (?1, ?2, ?3)";
            connection.execute(sql, params![id, accepted_s, text])?;
            let keep = "DELETE FROM requests WHERE id IN
                        (SELECT id FROM requests ORDER BY accepted_s DESC, rowid DESC LIMIT -1 OFFSET ?1)";
            connection.execute(keep, [MAX_REQUESTS]).map(|_| ())
        })
        .await
    }

    /// A request's story; none where it is not, or no more, on record.
    pub async fn request(&self, id: RequestId) -> Result<Option<ExplainReply>, StoreError> {
        self.call(move |connection| {
            optional(connection.query_row("SELECT story FROM requests WHERE id = ?1", [id.0], story_of))
        })
        .await
        .map(Option::flatten)
    }

    /// The newest stories, the newest first.
    pub async fn requests(&self, at_most: u32) -> Result<Vec<ExplainReply>, StoreError> {
        self.call(move |connection| {
            let sql = "SELECT story FROM requests ORDER BY accepted_s DESC, rowid DESC LIMIT ?1";
            let stories = connection.prepare(sql)?.query_map([at_most], story_of)?.collect::<Result<Vec<_>, _>>()?;
            Ok(stories.into_iter().flatten().collect())
        })
        .await
    }
}

/// A story of another version's form is no story.
fn story_of(row: &Row<'_>) -> rusqlite::Result<Option<ExplainReply>> {
    Ok(serde_json::from_str(&row.get::<_, String>(0)?).ok())
}
