//! What is known of a connected peer, shared between the event loop, its control conversation and the handle.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use idlewild_protocol::{BootId, PeerId, Role};
use tokio::sync::{Semaphore, mpsc};

/// What a connected member's link is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerLink {
    /// Who.
    pub peer: PeerId,
    /// What it may do.
    pub role: Role,
    /// Which life of its process.
    pub boot: BootId,
    /// Where it is, as a multiaddress.
    pub address: String,
    /// Round trip of heartbeats, microseconds: the median of the last ones; 0 until there was one.
    pub rtt_us: u32,
    /// Measured bytes a second towards it.
    pub up_bytes_per_s: Option<u64>,
    /// Measured bytes a second from it.
    pub down_bytes_per_s: Option<u64>,
    /// Since when one of these rates is known; none before the first measurement, whoever asked for it.
    pub measured_for: Option<Duration>,
    /// Since when it is here.
    pub connected_for: Duration,
    /// Whether it has a connection of its own for bulk data.
    pub has_bulk: bool,
    /// Whether all that is said to it passes through another member, since no direct way is known.
    pub is_relayed: bool,
}

/// Frames that may wait to be sent to one peer. Control messages are mostly under 1 KiB and at most 48 KiB; a peer that
/// lags this far behind is nearly silent.
pub(crate) const CONTROL_QUEUE: usize = 128;

/// The shared part of a connected peer.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) peer: PeerId,
    pub(crate) role: Role,
    pub(crate) boot: BootId,
    pub(crate) since: Instant,
    /// Whole frames for its control stream.
    pub(crate) outgoing: mpsc::Sender<Vec<u8>>,
    /// One probe of this peer at a time.
    pub(crate) probing: Semaphore,
    address: Mutex<String>,
    rtt_us: AtomicU32,
    /// 0 is not measured.
    up_bytes_per_s: AtomicU64,
    down_bytes_per_s: AtomicU64,
    measured_at: Mutex<Option<Instant>>,
    has_bulk: AtomicBool,
    is_relayed: AtomicBool,
}

impl PeerState {
    /// A peer that just came, and the end of its queue.
    pub(crate) fn new(peer: PeerId, role: Role, boot: BootId, address: String) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (outgoing, queue) = mpsc::channel(CONTROL_QUEUE);
        let state = Self {
            peer,
            role,
            boot,
            since: Instant::now(),
            outgoing,
            probing: Semaphore::new(1),
            address: Mutex::new(address),
            rtt_us: AtomicU32::new(0),
            up_bytes_per_s: AtomicU64::new(0),
            down_bytes_per_s: AtomicU64::new(0),
            measured_at: Mutex::new(None),
            has_bulk: AtomicBool::new(false),
            is_relayed: AtomicBool::new(false),
        };
        (state, queue)
    }

    pub(crate) fn set_rtt(&self, rtt: Duration) {
        self.rtt_us.store(u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The median of the last heartbeats, once there was one.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let rtt_us = self.rtt_us.load(Ordering::Relaxed);
        (rtt_us > 0).then(|| Duration::from_micros(rtt_us.into()))
    }

    pub(crate) fn set_has_bulk(&self, has_bulk: bool) {
        self.has_bulk.store(has_bulk, Ordering::Relaxed);
    }

    /// Takes a measurement in; one of `None` leaves what was known.
    pub(crate) fn set_rates(&self, up: Option<u64>, down: Option<u64>) {
        for (rate, measured) in [(&self.up_bytes_per_s, up), (&self.down_bytes_per_s, down)] {
            if let Some(measured) = measured {
                rate.store(measured.max(1), Ordering::Relaxed);
            }
        }
        if up.or(down).is_some() {
            *self.measured_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    pub(crate) fn is_relayed(&self) -> bool {
        self.is_relayed.load(Ordering::Relaxed)
    }

    /// Where what is said to it goes, and whether through a relay.
    pub(crate) fn set_path(&self, address: String, is_relayed: bool) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
        self.is_relayed.store(is_relayed, Ordering::Relaxed);
    }

    pub(crate) fn link(&self) -> PeerLink {
        let rate = |rate: &AtomicU64| Some(rate.load(Ordering::Relaxed)).filter(|&rate| rate > 0);
        PeerLink {
            peer: self.peer,
            role: self.role,
            boot: self.boot,
            address: self.address.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            rtt_us: self.rtt_us.load(Ordering::Relaxed),
            up_bytes_per_s: rate(&self.up_bytes_per_s),
            down_bytes_per_s: rate(&self.down_bytes_per_s),
            measured_for: self.measured_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed()),
            connected_for: self.since.elapsed(),
            has_bulk: self.has_bulk.load(Ordering::Relaxed),
            is_relayed: self.is_relayed(),
        }
    }
}
