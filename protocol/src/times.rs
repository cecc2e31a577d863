//! What moves take a peer beside their tokens, as it has measured it: a byte a figure.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The shortest time with a code, in seconds.
const SHORTEST_S: f64 = 1e-3;

/// The longest, in seconds: nothing that a client waits for at a move takes longer.
const LONGEST_S: f64 = 60.0;

/// Codes of times.
const CODES: u8 = u8::MAX;

/// A time between a millisecond and a minute, or none, as one byte.
///
/// 0 is none; code k is 1 ms * r^(k-1) with r chosen so that 255 is 60 s. Its relative error is at most 2.2 %; what is
/// shorter or longer counts as the shortest or the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuantisedTime(pub u8);

impl QuantisedTime {
    /// The code of so many seconds; what is no number counts as not measured.
    pub fn of(seconds: f64) -> Self {
        if seconds.is_nan() {
            return Self::default();
        }
        let steps = (seconds.clamp(SHORTEST_S, LONGEST_S) / SHORTEST_S).ln() / log_step();
        Self(steps.round().clamp(0.0, f64::from(CODES - 1)) as u8 + 1)
    }

    /// Seconds; none where nothing was measured.
    pub fn seconds(self) -> Option<f64> {
        let steps = self.0.checked_sub(1)?;
        Some(SHORTEST_S * (f64::from(steps) * log_step()).exp())
    }
}

/// ln(r) of the code's log scale.
fn log_step() -> f64 {
    (LONGEST_S / SHORTEST_S).ln() / f64::from(CODES - 1)
}

/// Medians of what the latest moves and losses of its own requests took an origin, by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct MoveTimes {
    /// From a source's last token to its destination's first.
    pub hand_off: QuantisedTime,
    /// From a prepare to the first KV cache at the destination.
    pub transfer_start: QuantisedTime,
    /// From a prepare to the first token that a destination has prefilled.
    pub prefill_start: QuantisedTime,
    /// From the time a token was due to when its worker was known to be lost.
    pub detection: QuantisedTime,
}
