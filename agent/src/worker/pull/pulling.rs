//! A pull as its job sees it: what it is told, what it says, and its end.

use std::time::Duration;

use idlewild_engine::SequenceHandle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::expecting::{self, Revoker};
use super::pace::Pace;
use super::sizes::Sizes;
use super::{Known, Pull, Source, positions};

/// A pull under way. Dropping it ends it; what the sequence then expects is up to the one who dropped it.
#[derive(Debug)]
pub(in crate::worker) struct Pulling {
    /// The first to be dropped: what the task still says, perhaps on another thread at this moment, is heard no more.
    _revoker: Revoker,
    known: watch::Sender<Known>,
    held: watch::Sender<u32>,
    /// Counts signs of life.
    signs: watch::Receiver<u64>,
    task: AbortOnDropHandle<bool>,
    round_trip: Duration,
}

/// What a pull says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Progress {
    /// Enough comes to be waited for; about once a second.
    GoesOn,
    /// Nothing more will be pulled.
    Over {
        /// The whole has come, and is on its way into the sequence.
        is_all: bool,
    },
}

impl Pulling {
    /// Begins to pull into `handle`, whose sequence has a slot and was sent `known` ids. With `is_once` it ends when what
    /// there was at the start has come; else it goes on as the holder decodes.
    pub(in crate::worker) fn start(source: Source, handle: SequenceHandle, known: u32, is_once: bool) -> Self {
        let (known, known_seen) =
            watch::channel(Known { positions: positions(known), is_final: is_once, is_urgent: false });
        let (held, held_seen) = watch::channel(0);
        let (signs, signs_seen) = watch::channel(0);
        let now = Instant::now();
        let (expecting, revoker) = expecting::revocable(handle.clone());
        let made_bytes_per_s = source.prefill_tps * f64::from(source.kv_bytes_per_token);
        let round_trip = source.round_trip;
        let pull = Pull {
            pace: Pace::new(now, is_once, made_bytes_per_s, source.steps.longest),
            sizes: Sizes::new(now, source.kv_bytes_per_token, (source.kv_tps, source.steps.decoding)),
            source,
            handle,
            expecting,
            known: known_seen,
            held: held_seen,
            signs,
            signed: now,
            received_before: 0,
        };
        let task = AbortOnDropHandle::new(tokio::spawn(pull.run()));
        Self { _revoker: revoker, known, held, signs: signs_seen, task, round_trip }
    }

    /// The least that an answer of the holder's takes, as far as that is known.
    pub(in crate::worker) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// So many ids were sent by now.
    pub(in crate::worker) fn known(&self, ids: u32) {
        self.known.send_modify(|known| known.positions = positions(ids));
    }

    /// The hand-over is near, and every token counts; or it is not any more.
    pub(in crate::worker) fn hurry(&self, is_urgent: bool) {
        self.known.send_modify(|known| known.is_urgent = is_urgent);
    }

    /// No more ids will come: it ends when what there is has come.
    pub(in crate::worker) fn finish(&self) {
        self.known.send_modify(|known| known.is_final = true);
    }

    /// The sequence holds so many positions.
    pub(in crate::worker) fn held(&self, tokens: u32) {
        self.held.send_replace(tokens);
    }

    /// Waits for a sign of life, or until nothing more will be pulled. May be dropped and called again, until it was over.
    pub(in crate::worker) async fn progress(&mut self) -> Progress {
        tokio::select! {
            Ok(()) = self.signs.changed() => Progress::GoesOn,
            // A task that panicked pulls nothing more either.
            ended = &mut self.task => Progress::Over { is_all: ended.unwrap_or(false) },
        }
    }
}
