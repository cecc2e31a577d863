//! What moves and losses of one request take beside its tokens, as its origin sees it: for the next decisions.

use core::time::Duration;

use idlewild_coordinator::Now;
use idlewild_coordinator::ownership::{Ending, RequestMachine};
use idlewild_protocol::{Epoch, PeerId};

use super::overheads::MeasuredOverheads;

/// How much a new gap between tokens counts against all before it.
const GAP_WEIGHT: f64 = 0.1;

/// The last token.
#[derive(Debug, Clone, Copy)]
struct Last {
    epoch: Epoch,
    index: u32,
    at: Now,
}

/// A preparation whose first tokens have not come yet.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Now,
    pulls: bool,
}

/// Watches one request.
#[derive(Debug)]
pub(super) struct Stopwatch {
    overheads: MeasuredOverheads,
    last: Option<Last>,
    /// Seconds between two tokens of one worker, of late.
    gap_s: Option<f64>,
    begun: Option<Begun>,
}

impl Stopwatch {
    pub(super) fn new(overheads: MeasuredOverheads) -> Self {
        Self { overheads, last: None, gap_s: None, begun: None }
    }

    /// A destination is told to prepare, and to pull KV cache or to make it from the ids.
    pub(super) fn prepares(&mut self, now: Now, pulls: bool) {
        self.begun = Some(Begun { at: now, pulls });
    }

    /// The destination holds something.
    pub(super) fn holds(&mut self, now: Now) {
        let Some(Begun { at, pulls }) = self.begun.take() else { return };
        let took = now.saturating_sub(at);
        if pulls {
            self.overheads.observe_transfer_start(took);
        } else {
            self.overheads.observe_prefill_start(took);
        }
    }

    /// The worker of `epoch` is known to be lost. What one takes that had not said a token tells nothing.
    pub(super) fn lost(&self, now: Now, epoch: Epoch) {
        if let Some((last, gap_s)) = self.last.filter(|last| last.epoch == epoch).zip(self.gap_s) {
            self.overheads.observe_detection(now.saturating_sub(last.at + Duration::from_secs_f64(gap_s)));
        }
    }

    /// Tokens a second of the worker, of late; none before it has said two.
    pub(super) fn decode_tps(&self) -> Option<f64> {
        self.gap_s.filter(|gap_s| *gap_s > 0.0).map(f64::recip)
    }

    /// Looks for a new token. Where it is the first of another worker than the one before: its assignment, that worker, and
    /// the pause.
    pub(super) fn look(&mut self, now: Now, machine: &RequestMachine) -> Option<(Epoch, PeerId, Duration)> {
        let index = machine.log().next_index();
        let before = self.last;
        if before.is_some_and(|last| last.index == index) {
            return None;
        }
        // Whose the last token is: the next worker may be live already.
        let (at, of) = machine.story().iter().enumerate().rev().find(|(_, of)| of.from_index < index)?;
        self.last = Some(Last { epoch: of.epoch, index, at: now });
        let before = before?;
        let pause = now.saturating_sub(before.at);
        if before.epoch == of.epoch {
            let (gap_s, of_late) = (pause.as_secs_f64(), self.gap_s);
            self.gap_s = Some(of_late.map_or(gap_s, |of_late| of_late + GAP_WEIGHT * (gap_s - of_late)));
            return None;
        }
        let how = at.checked_sub(1).and_then(|before| machine.story().get(before)?.ended.as_ref());
        if how.is_some_and(|(_, how)| *how == Ending::HandedOver) {
            let gap = Duration::from_secs_f64(self.gap_s.unwrap_or_default());
            self.overheads.observe_hand_off(pause.saturating_sub(gap));
        }
        Some((of.epoch, of.worker, pause))
    }
}
