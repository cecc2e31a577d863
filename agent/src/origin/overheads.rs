//! What moves and losses of this origin's requests took beside their tokens: running medians, for the next decisions of
//! whoever coordinates. O_k is none of them: it is a matter of the destination's rates.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idlewild_protocol::{MoveTimes, QuantisedTime};

/// Values that a median is taken over: enough to shrug off an outlier, few enough to follow a new network.
const KEPT: usize = 15;

/// Values before which what is assumed is believed more.
const LEAST: usize = 3;

/// The latest values of one figure.
#[derive(Debug, Clone, Default)]
struct Figure(VecDeque<f64>);

impl Figure {
    fn observe(&mut self, took: Duration) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(took.as_secs_f64());
    }

    fn measured(&self) -> MeasuredTime {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median_s = sorted.get(sorted.len() / 2).copied().filter(|_| sorted.len() >= LEAST);
        MeasuredTime { count: sorted.len(), median_s }
    }
}

/// One figure as far as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeasuredTime {
    /// Values that are remembered, the latest 15.
    pub count: usize,
    /// Their median in seconds; none of fewer than three.
    pub median_s: Option<f64>,
}

impl MeasuredTime {
    fn quantised(self) -> QuantisedTime {
        self.median_s.map_or_else(QuantisedTime::default, QuantisedTime::of)
    }
}

/// All figures as far as they were measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measured {
    /// O_h.
    pub hand_off: MeasuredTime,
    /// O_t.
    pub transfer_start: MeasuredTime,
    /// O_r.
    pub prefill_start: MeasuredTime,
    /// D.
    pub detection: MeasuredTime,
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
    fn with<T>(&self, look: impl FnOnce(&mut Figures) -> T) -> T {
        look(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// As far as they were measured.
    pub fn measured(&self) -> Measured {
        self.with(|figures| Measured {
            hand_off: figures.hand_off.measured(),
            transfer_start: figures.transfer_start.measured(),
            prefill_start: figures.prefill_start.measured(),
            detection: figures.detection.measured(),
        })
    }

    /// The same as a digest says it.
    pub fn times(&self) -> MoveTimes {
        let measured = self.measured();
        MoveTimes {
            hand_off: measured.hand_off.quantised(),
            transfer_start: measured.transfer_start.quantised(),
            prefill_start: measured.prefill_start.quantised(),
            detection: measured.detection.quantised(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_measurements_make_a_figure_and_one_outlier_changes_nothing() {
        let measured = MeasuredOverheads::default();
        let hand_off = || measured.clone().measured().hand_off;
        assert_eq!(measured.times(), MoveTimes::default());
        for ms in [40, 60] {
            measured.observe_hand_off(Duration::from_millis(ms));
        }
        assert_eq!(hand_off(), MeasuredTime { count: 2, median_s: None }, "too few");
        assert_eq!(measured.times(), MoveTimes::default());
        measured.observe_hand_off(Duration::from_secs(30));
        assert_eq!(hand_off(), MeasuredTime { count: 3, median_s: Some(0.06) });
        assert_eq!(measured.times(), MoveTimes { hand_off: QuantisedTime::of(0.06), ..MoveTimes::default() });
        for _ in 0..KEPT {
            measured.observe_hand_off(Duration::from_millis(20));
        }
        assert_eq!(hand_off(), MeasuredTime { count: KEPT, median_s: Some(0.02) }, "what is old is forgotten");
    }
}
