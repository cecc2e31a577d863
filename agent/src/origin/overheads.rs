//! What moves took on this machine beside their tokens: running medians, for the next decisions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idlewild_coordinator::cost::Overheads;

/// Values that a median is taken over: enough to shrug off an outlier, few enough to follow a new network.
const KEPT: usize = 15;

/// Values before which what is assumed is believed more.
const LEAST: usize = 3;

/// The latest values of one figure.
#[derive(Debug, Default)]
struct Figure(VecDeque<f64>);

impl Figure {
    fn observe(&mut self, took: Duration) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(took.as_secs_f64());
    }

    fn median_or(&self, assumed_s: f64) -> f64 {
        if self.0.len() < LEAST {
            return assumed_s;
        }
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

#[derive(Debug, Default)]
struct Figures {
    hand_off: Figure,
    transfer_start: Figure,
    prefill_start: Figure,
    detection: Figure,
}

/// All of them. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct MeasuredOverheads {
    figures: Arc<Mutex<Figures>>,
}

impl MeasuredOverheads {
    fn with(&self, observe: impl FnOnce(&mut Figures)) {
        observe(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// O_h: from the source's last token to the destination's first, without the catching up.
    pub fn observe_hand_off(&self, took: Duration) {
        self.with(|figures| figures.hand_off.observe(took));
    }

    /// O_t: from the prepare to the first bytes of KV.
    pub fn observe_transfer_start(&self, took: Duration) {
        self.with(|figures| figures.transfer_start.observe(took));
    }

    /// O_r: from the prepare or the start to the first token that was prefilled.
    pub fn observe_prefill_start(&self, took: Duration) {
        self.with(|figures| figures.prefill_start.observe(took));
    }

    /// D: from a worker's last sign of life to when its loss was known.
    pub fn observe_detection(&self, took: Duration) {
        self.with(|figures| figures.detection.observe(took));
    }

    /// As measured; as assumed where there are not enough measurements. O_k (`round_s`) is always as assumed: its rounds begin
    /// and end at the destination, and what the origin hears of them is what is held.
    pub fn overheads(&self) -> Overheads {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let assumed = Overheads::ASSUMED;
        Overheads {
            hand_off_s: figures.hand_off.median_or(assumed.hand_off_s),
            transfer_s: figures.transfer_start.median_or(assumed.transfer_s),
            recompute_s: figures.prefill_start.median_or(assumed.recompute_s),
            detection_s: figures.detection.median_or(assumed.detection_s),
            ..assumed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_replaces_what_is_assumed_and_one_outlier_changes_nothing() {
        let measured = MeasuredOverheads::default();
        assert_eq!(measured.overheads(), Overheads::ASSUMED);
        for ms in [40, 60] {
            measured.observe_hand_off(Duration::from_millis(ms));
        }
        assert_eq!(measured.overheads(), Overheads::ASSUMED, "too few");
        measured.observe_hand_off(Duration::from_secs(30));
        let expected = Overheads { hand_off_s: 0.06, ..Overheads::ASSUMED };
        assert_eq!(measured.clone().overheads(), expected);
        for _ in 0..KEPT {
            measured.observe_hand_off(Duration::from_millis(20));
        }
        assert_eq!(measured.overheads().hand_off_s, 0.02, "what is old is forgotten");
    }
}
