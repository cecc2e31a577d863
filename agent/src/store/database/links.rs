//! What was measured, so that a restarted agent need not measure it again.

use idlewild_engine::DoublesAt;
use idlewild_protocol::{ModelId, PeerId};
use rusqlite::params;

use super::{Store, StoreError};

/// Peers whose links are remembered.
const MAX_LINKS: u32 = 1024;

/// Models whose rates are remembered.
const MAX_RATES: u32 = 256;

/// A link as it was last measured from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRecord {
    /// The other end.
    pub peer: PeerId,
    /// Bytes a second towards it, if that was measured.
    pub up_bytes_per_s: Option<u64>,
    /// Bytes a second from it, if that was measured.
    pub down_bytes_per_s: Option<u64>,
    /// Round trip in microseconds.
    pub rtt_us: u32,
    /// Seconds since 1970.
    pub measured_s: u64,
}

/// What a model does on this machine, as last measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateRecord {
    /// The model.
    pub model: ModelId,
    /// Decoded tokens a second.
    pub decode_tps: f32,
    /// Prefilled tokens a second.
    pub prefill_tps: f32,
    /// Contexts that double the time of a token.
    pub doubles_at: DoublesAt,
    /// Bytes of KV cache for a token.
    pub kv_bytes_per_token: u32,
    /// Milliseconds to load it.
    pub load_ms: u32,
    /// Seconds since 1970.
    pub measured_s: u64,
}

impl Store {
    /// Keeps a measurement in place of the last one; what this one lacks is kept from it.
    pub async fn record_link(&self, link: LinkRecord) -> Result<(), StoreError> {
        self.call(move |connection| {
            let sql = "INSERT INTO links VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET
                       up_bytes_per_s = coalesce(excluded.up_bytes_per_s, up_bytes_per_s),
                       down_bytes_per_s = coalesce(excluded.down_bytes_per_s, down_bytes_per_s),
                       rtt_us = excluded.rtt_us, measured_s = excluded.measured_s";
            let (up, down) = (link.up_bytes_per_s.map(u64::cast_signed), link.down_bytes_per_s.map(u64::cast_signed));
            connection.execute(sql, params![link.peer.0, up, down, link.rtt_us, link.measured_s.cast_signed()])?;
            let keep = "DELETE FROM links WHERE peer NOT IN (SELECT peer FROM links ORDER BY measured_s DESC LIMIT ?1)";
            connection.execute(keep, [MAX_LINKS]).map(|_| ())
        })
        .await
    }

    /// All links on record, the newest first.
    pub async fn links(&self) -> Result<Vec<LinkRecord>, StoreError> {
        self.call(|connection| {
            let sql = "SELECT peer, up_bytes_per_s, down_bytes_per_s, rtt_us, measured_s FROM links
                       ORDER BY measured_s DESC";
            let link_of = |row: &rusqlite::Row<'_>| {
                Ok(LinkRecord {
                    peer: PeerId(row.get(0)?),
                    up_bytes_per_s: row.get::<_, Option<i64>>(1)?.map(|n| n as u64),
                    down_bytes_per_s: row.get::<_, Option<i64>>(2)?.map(|n| n as u64),
                    rtt_us: row.get(3)?,
                    measured_s: row.get::<_, i64>(4)? as u64,
                })
            };
            connection.prepare(sql)?.query_map([], link_of)?.collect()
        })
        .await
    }

    /// Keeps a model's rates in place of the last ones.
    pub async fn record_rate(&self, rate: RateRecord) -> Result<(), StoreError> {
        self.call(move |connection| {
            let values = params![
                rate.model.0,
                rate.decode_tps,
                rate.prefill_tps,
                rate.kv_bytes_per_token,
                rate.load_ms,
                rate.measured_s.cast_signed(),
                rate.doubles_at.decode,
                rate.doubles_at.prefill
            ];
            let sql = "INSERT OR REPLACE INTO rates (model, decode_tps, prefill_tps, kv_bytes_per_token, load_ms,
                       measured_s, decode_doubles_at, prefill_doubles_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            connection.execute(sql, values)?;
            let keep =
                "DELETE FROM rates WHERE model NOT IN (SELECT model FROM rates ORDER BY measured_s DESC LIMIT ?1)";
            connection.execute(keep, [MAX_RATES]).map(|_| ())
        })
        .await
    }

    /// All rates on record.
    pub async fn rates(&self) -> Result<Vec<RateRecord>, StoreError> {
        self.call(|connection| {
            let sql =
                "SELECT model, decode_tps, prefill_tps, kv_bytes_per_token, load_ms, measured_s, decode_doubles_at,
                       prefill_doubles_at FROM rates";
            let rate_of = |row: &rusqlite::Row<'_>| {
                Ok(RateRecord {
                    model: ModelId(row.get(0)?),
                    decode_tps: row.get(1)?,
                    prefill_tps: row.get(2)?,
                    kv_bytes_per_token: row.get(3)?,
                    load_ms: row.get(4)?,
                    measured_s: row.get::<_, i64>(5)? as u64,
                    doubles_at: DoublesAt { decode: row.get(6)?, prefill: row.get(7)? },
                })
            };
            connection.prepare(sql)?.query_map([], rate_of)?.collect()
        })
        .await
    }
}
