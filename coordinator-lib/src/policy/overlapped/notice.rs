//! NOTICE: a departure that announces itself leaves seconds to use.

use crate::cost::{Fixed, Overheads, Preparation, Route, Takeover, stopped_split};

/// What a candidate makes of the notice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoticeTest {
    /// U_q: seconds that the user waits at the hand-off, the destination's queue included.
    pub stall_s: f64,
    /// L_j: expected seconds of loss there afterwards.
    pub loss_s: f64,
    /// Seconds that it is worth, compared with the reactive way: to let the source go, and then to begin anew on the
    /// fallback.
    pub gain_s: f64,
}

impl NoticeTest {
    /// What candidates are ranked by.
    pub fn cost_s(&self) -> f64 {
        self.stall_s + self.loss_s
    }
}

/// U_q = O_h + max(0, lag + d N - gain (N - begins)+)/p of a source that decodes until it goes, in N = `notice_s` seconds.
pub(super) fn decoding_stall_s(route: &Route, preparation: &Preparation, notice_s: f64, overheads: &Overheads) -> f64 {
    let fixed = Fixed { is_announced: true, sigma_s: 0.0, overheads };
    Takeover::preparing(route, preparation, fixed).cost_s(notice_s)
}

/// U_q of a source that has stopped, and whose memory is there for `notice_s` seconds: the split, as far as it gets.
pub(super) fn stopped_stall_s(route: &Route, notice_s: f64, overheads: &Overheads) -> f64 {
    let whole_s = stopped_split(route, overheads).stall_s;
    if whole_s <= notice_s {
        return whole_s;
    }
    let sent_tokens = route.kv_tps * (notice_s - overheads.transfer_s).max(0.0);
    let rest_tokens = (route.context_tokens - sent_tokens).max(0.0);
    overheads.recompute_s + rest_tokens / route.prefill_tps
}
