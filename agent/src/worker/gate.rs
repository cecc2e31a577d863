//! Whether this peer works for others now. The driver opens and shuts it; every job watches it.

use idlewild_protocol::DepartureCause;
use tokio::sync::watch;

/// Open while the owner is away and the rules permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Jobs are taken.
    Open,
    /// None is taken, and those that run stop at once.
    Shut {
        /// Why.
        cause: DepartureCause,
        /// Milliseconds for which the peer can still be reached.
        notice_ms: u32,
    },
}

impl Gate {
    /// Before anything is known of the owner.
    pub const UNKNOWN: Self = Self::Shut { cause: DepartureCause::Unknown, notice_ms: 0 };
}

/// What a job is told when the gate shuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shut {
    /// Why.
    pub cause: DepartureCause,
    /// Milliseconds for which the peer can still be reached.
    pub notice_ms: u32,
}

/// Waits until the gate is shut; at once where it is. A driver that is gone has shut it for good.
pub(super) async fn shut(gate: &mut watch::Receiver<Gate>) -> Shut {
    let is_shut = |gate: &Gate| matches!(gate, Gate::Shut { .. });
    match gate.wait_for(is_shut).await.map(|gate| *gate) {
        Ok(Gate::Shut { cause, notice_ms }) => Shut { cause, notice_ms },
        Ok(Gate::Open) | Err(_) => Shut { cause: DepartureCause::Shutdown, notice_ms: 0 },
    }
}

/// Waits until the gate is open; false where it never will be. A driver that is gone has not left it open.
pub(super) async fn open(gate: &mut watch::Receiver<Gate>) -> bool {
    gate.wait_for(|gate| *gate == Gate::Open).await.is_ok() && gate.has_changed().is_ok()
}

/// Waits until the gate is shut without any notice: the memory is wanted at once. A driver that is gone hurries nobody.
pub(super) async fn hurried(gate: &mut watch::Receiver<Gate>) {
    if gate.wait_for(|gate| matches!(gate, Gate::Shut { notice_ms: 0, .. })).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn shut_for(notice_ms: u32) -> Gate {
        Gate::Shut { cause: DepartureCause::OwnerReturned, notice_ms }
    }

    #[test]
    fn a_notice_that_is_taken_back_hurries_and_a_driver_that_is_gone_does_not() {
        let (driver, mut gate) = watch::channel(Gate::Open);
        assert!(hurried(&mut gate).now_or_never().is_none());
        driver.send_replace(shut_for(1800));
        assert!(hurried(&mut gate).now_or_never().is_none());
        driver.send_replace(shut_for(0));
        assert!(hurried(&mut gate).now_or_never().is_some());
        driver.send_replace(Gate::Open);
        drop(driver);
        assert!(hurried(&mut gate).now_or_never().is_none());
    }

    #[test]
    fn a_gate_that_its_driver_left_open_is_shut() {
        let (driver, mut gate) = watch::channel(Gate::Open);
        assert_eq!(open(&mut gate).now_or_never(), Some(true));
        assert!(shut(&mut gate).now_or_never().is_none());
        drop(driver);
        assert_eq!(open(&mut gate).now_or_never(), Some(false));
        assert_eq!(shut(&mut gate).now_or_never().map(|shut| shut.cause), Some(DepartureCause::Shutdown));
    }
}
