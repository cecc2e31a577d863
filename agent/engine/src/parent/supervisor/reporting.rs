//! What the supervisor publishes: stats for whoever looks, notices for whoever listens.

use super::Supervisor;
use crate::{EngineNotice, EnginePhase, EngineStats};

impl Supervisor {
    pub(super) fn notify(&self, notice: EngineNotice) {
        if self.outlets.notices.try_send(notice).is_err() {
            tracing::debug!("nobody reads the engine's notices");
        }
    }

    pub(super) fn phase(&self) -> EnginePhase {
        if self.restart_at.is_some() && self.wanted.is_some() {
            return EnginePhase::BackingOff;
        }
        match (&self.link, &self.loading, &self.loaded) {
            (None, ..) => EnginePhase::Absent,
            (_, Some(_), _) => EnginePhase::Loading,
            (_, None, Some(_)) => EnginePhase::Ready,
            (_, None, None) => EnginePhase::Starting,
        }
    }

    pub(super) fn publish(&self) {
        let stats = EngineStats {
            pid: self.link.as_ref().and_then(|link| link.pid),
            phase: self.phase(),
            model: self.loaded.clone(),
            running: self.child.running,
            waiting: self.child.waiting + self.queued.len() as u16,
            standbys: self.child.standbys,
            slots: self.limits.slots,
            kv_tokens: self.child.kv_tokens,
            kv_free_tokens: self.child.kv_free_tokens,
            standby_tokens: self.child.standby_tokens,
            decode_tps: self.child.decode_tps,
            prefill_tps: self.child.prefill_tps,
            decode_doubles_at: self.child.decode_doubles_at,
            prefill_doubles_at: self.child.prefill_doubles_at,
            restarts: self.restarts,
        };
        self.outlets.stats.send_if_modified(|last| {
            let is_changed = *last != stats;
            *last = stats;
            is_changed
        });
    }
}
