//! Measuring a link on its bulk connection, with few bytes: 256 KiB each way, and 2 MiB more where that took no time.
//!
//! ```text
//! asker --Probe{bytes}, bytes-->  other      the other measures how fast they come
//! asker <--Measured, bytes------- other      the asker measures these
//! asker --Measured------------->  other      so that both know both directions
//! ```
//!
//! The receiver measures, from the first bytes that arrive to the last: latency and the sender's buffers do not count.

use core::time::Duration;
use std::sync::PoisonError;
use std::time::Instant;

use idlewild_protocol::{BulkRequest, MAX_PROBE_BYTES, Measured, PeerId, Protocol};
use tokio::time::timeout;

use crate::budget::Asker;
use crate::frames::{StreamReader as Reader, StreamWriter as Writer, framed};
use crate::handle::{Opened, Shared};
use crate::peer::PeerState;
use crate::{OpenError, ProbeError, Swarm};

/// Bytes each way at first: 20 ms at 100 Mbit/s, 2 s at 1 Mbit/s.
const SMALL: u32 = 256 * 1024;

/// Bytes each way where the small probe took less than [`QUICK`]: a fast link has barely begun to send by then.
const LARGE: u32 = MAX_PROBE_BYTES;

const QUICK: Duration = Duration::from_millis(40);

/// The whole probe.
const LIMIT: Duration = Duration::from_secs(12);

/// Bytes written or read at once.
const PIECE: usize = 64 * 1024;

/// What a probe measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Bytes a second towards the peer.
    pub up_bytes_per_s: u64,
    /// Bytes a second from the peer.
    pub down_bytes_per_s: u64,
}

/// Why a probe's conversation ended early; nobody needs to know more.
#[derive(Debug)]
struct Broken;

/// Probes a peer.
pub(crate) async fn run(swarm: &Swarm, peer: PeerId) -> Result<Probe, ProbeError> {
    let state = swarm.shared.peer(peer).ok_or(ProbeError::Open(OpenError::NotConnected))?;
    if !state.link().has_bulk {
        return Err(ProbeError::NoBulk);
    }
    let _turn = state.probing.try_acquire().map_err(|_taken| ProbeError::Running)?;
    if !may_spend(&swarm.shared, peer, Asker::Us, SMALL) {
        return Err(ProbeError::BudgetSpent);
    }
    let Opened { stream, slot: _slot } = swarm.open(peer, Protocol::Bulk).await.map_err(ProbeError::Open)?;
    let (mut reader, mut writer) = framed(stream);
    let both = async {
        let begun = Instant::now();
        let small = exchange(&mut reader, &mut writer, SMALL).await?;
        if begun.elapsed() > QUICK || !may_spend(&swarm.shared, peer, Asker::Us, LARGE) {
            return Ok(small);
        }
        exchange(&mut reader, &mut writer, LARGE).await
    };
    let probe = timeout(LIMIT, both).await.map_err(|_elapsed| ProbeError::Unfinished)?;
    let probe = probe.map_err(|Broken| ProbeError::Unfinished)?;
    state.set_rates(Some(probe.up_bytes_per_s), Some(probe.down_bytes_per_s));
    // The other side waits for the end of the stream; dropping it says so as well.
    drop(timeout(LIMIT, writer.close()).await);
    Ok(probe)
}

/// Answers a peer's probes on one stream, of which the first, of `bytes`, was read.
pub(crate) async fn serve((mut reader, mut writer): (Reader, Writer), bytes: u32, shared: &Shared, state: &PeerState) {
    let answer = async {
        let mut next = Ok(BulkRequest::Probe { bytes });
        while let Ok(BulkRequest::Probe { bytes }) = next {
            if !may_spend(shared, state.peer, Asker::Them, bytes) {
                tracing::debug!(peer = %state.peer, "peer has spent its day's probes");
                return;
            }
            let Ok((down, up)) = answer_probe(&mut reader, &mut writer, bytes).await else { return };
            state.set_rates(Some(up), Some(down));
            next = reader.next::<BulkRequest>().await;
        }
    };
    // A peer that does not finish has only itself to blame.
    drop(timeout(2 * LIMIT, answer).await);
}

async fn exchange(reader: &mut Reader, writer: &mut Writer, bytes: u32) -> Result<Probe, Broken> {
    writer.send(&BulkRequest::Probe { bytes }).await.map_err(|_| Broken)?;
    send_bytes(writer, bytes).await?;
    let up: Measured = reader.next().await.map_err(|_| Broken)?;
    let down = measure(reader, bytes).await?;
    writer.send(&Measured { bytes_per_s: down }).await.map_err(|_| Broken)?;
    Ok(Probe { up_bytes_per_s: up.bytes_per_s, down_bytes_per_s: down })
}

/// Bytes a second from the peer, and towards it.
async fn answer_probe(reader: &mut Reader, writer: &mut Writer, bytes: u32) -> Result<(u64, u64), Broken> {
    let down = measure(reader, bytes).await?;
    writer.send(&Measured { bytes_per_s: down }).await.map_err(|_| Broken)?;
    send_bytes(writer, bytes).await?;
    let up: Measured = reader.next().await.map_err(|_| Broken)?;
    Ok((down, up.bytes_per_s))
}

async fn send_bytes(writer: &mut Writer, bytes: u32) -> Result<(), Broken> {
    // Nothing on the way compresses, so that zeros are as good as any bytes.
    let piece = vec![0; PIECE];
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(PIECE);
        writer.push(piece.get(..now).unwrap_or_default());
        writer.flush().await.map_err(|_| Broken)?;
        left -= now;
    }
    Ok(())
}

/// Reads `bytes` and says how fast they came. What comes with the first read gives the start, and does not count.
async fn measure(reader: &mut Reader, bytes: u32) -> Result<u64, Broken> {
    let mut left = bytes as usize;
    left -= reader.skip(left, PIECE).await.map_err(|_| Broken)?;
    let (begun, counted) = (Instant::now(), left);
    while left > 0 {
        left -= reader.skip(left, PIECE).await.map_err(|_| Broken)?;
    }
    let elapsed_us = begun.elapsed().as_micros().max(1) as u64;
    Ok((counted as u64).saturating_mul(1_000_000) / elapsed_us)
}

fn may_spend(shared: &Shared, peer: PeerId, asker: Asker, each_way: u32) -> bool {
    let mut budget = shared.budget.lock().unwrap_or_else(PoisonError::into_inner);
    budget.spend(peer, asker, 2 * u64::from(each_way), Instant::now())
}
