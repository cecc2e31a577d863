//! NOTICE: a departure that announces itself leaves seconds to use.

use crate::cost::{Overheads, Route, noticed_loss_s, stopped_split};

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

/// U_q of a source that decodes until it goes, in `notice_s` seconds, of which a destination that lacks
/// `route.context_tokens` uses all but the first `startup_s`.
pub(super) fn decoding_stall_s(
    route: &Route,
    gain_tps: f64,
    startup_s: f64,
    notice_s: f64,
    overheads: &Overheads,
) -> f64 {
    let unused_tokens = gain_tps * startup_s.min(notice_s);
    let missing_tokens = route.context_tokens + unused_tokens;
    noticed_loss_s(missing_tokens, route.decode_tps, gain_tps, route.prefill_tps, notice_s, overheads)
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
