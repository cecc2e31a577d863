//! Tickets that this peer issued: each is good for one newcomer.

use idlewild_protocol::{PeerId, Refusal, Ticket, TicketId, TicketSecret};
use rusqlite::{Connection, params};

use super::sessions::optional;
use super::{Store, StoreError};

/// Tickets that may wait for their newcomers at once.
const MAX_OPEN_TICKETS: u32 = 256;

/// How long a ticket is remembered after its time, so that its holder is told "expired" or "used", not "unknown".
const REMEMBER_S: u64 = 30 * 24 * 3600;

struct Known {
    secret: TicketSecret,
    not_after_s: u64,
    used_by: Option<PeerId>,
}

impl Store {
    /// Remembers a ticket that is about to be given away.
    pub async fn add_ticket(&self, ticket: &Ticket, now_s: u64) -> Result<(), StoreError> {
        let (id, secret, not_after_s) = (ticket.id.0, ticket.secret.0, ticket.not_after_s);
        let added = self
            .call(move |connection| {
                let forget_s = now_s.saturating_sub(REMEMBER_S).cast_signed();
                connection.execute("DELETE FROM tickets WHERE not_after_s < ?1", [forget_s])?;
                let sql = "INSERT INTO tickets (id, secret, not_after_s) SELECT ?1, ?2, ?3
                           WHERE (SELECT count(*) FROM tickets WHERE used_by IS NULL AND not_after_s >= ?4) < ?5";
                connection
                    .execute(sql, params![id, secret, not_after_s.cast_signed(), now_s.cast_signed(), MAX_OPEN_TICKETS])
            })
            .await?;
        if added == 1 { Ok(()) } else { Err(StoreError::TooManyTickets(MAX_OPEN_TICKETS)) }
    }

    /// Trades a ticket in: succeeds for the first newcomer that `proves` to know its secret, and for the same one again
    /// (whose answer may have been lost on the way). Blocks for a bounded time.
    pub fn redeem_ticket(
        &self,
        id: TicketId,
        newcomer: PeerId,
        now_s: u64,
        proves: &dyn Fn(&TicketSecret) -> bool,
    ) -> Result<(), Refusal> {
        let known = self.call_now(move |connection| find(connection, id)).map_err(|_| Refusal::Busy)?;
        // A wrong proof says no more than a ticket that does not exist.
        let known = known.filter(|known| proves(&known.secret)).ok_or(Refusal::TicketUnknown)?;
        if known.used_by.is_some_and(|by| by != newcomer) {
            return Err(Refusal::TicketUsed);
        }
        if known.not_after_s < now_s {
            return Err(Refusal::TicketExpired);
        }
        let taken = self.call_now(move |connection| take(connection, id, newcomer, now_s));
        if taken.map_err(|_| Refusal::Busy)? { Ok(()) } else { Err(Refusal::TicketUsed) }
    }

    /// Newcomers that tickets of this peer let in.
    pub async fn tickets_used(&self) -> Result<u64, StoreError> {
        self.call(|connection| {
            let sql = "SELECT count(*) FROM tickets WHERE used_by IS NOT NULL";
            connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
        })
        .await
    }
}

fn find(connection: &mut Connection, id: TicketId) -> rusqlite::Result<Option<Known>> {
    let sql = "SELECT secret, not_after_s, used_by FROM tickets WHERE id = ?1";
    optional(connection.query_row(sql, [id.0], |row| {
        Ok(Known {
            secret: TicketSecret(row.get(0)?),
            not_after_s: row.get::<_, i64>(1)? as u64,
            used_by: row.get::<_, Option<[u8; 32]>>(2)?.map(PeerId),
        })
    }))
}

/// The one step that decides between two newcomers.
fn take(connection: &mut Connection, id: TicketId, newcomer: PeerId, now_s: u64) -> rusqlite::Result<bool> {
    let sql = "UPDATE tickets SET used_by = ?2, used_s = ?3 WHERE id = ?1 AND (used_by IS NULL OR used_by = ?2)";
    Ok(connection.execute(sql, params![id.0, newcomer.0, now_s.cast_signed()])? == 1)
}
