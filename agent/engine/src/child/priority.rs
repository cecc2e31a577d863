//! The owner's programs come first: the child asks for the least of the processor, and to die with its parent.

/// Lowers this process (call it before any thread is started: threads inherit it). What fails is logged and not fatal.
pub(crate) fn lower() {
    #[cfg(unix)]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::warn!(%error, "the engine keeps its priority");
    }
    #[cfg(target_os = "linux")]
    linux::lower();
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::process::{Signal, set_parent_process_death_signal};

    pub(super) fn lower() {
        if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
            tracing::warn!(%error, "the engine would outlive a parent that is killed, until its pipe closes");
        }
        idle();
    }

    /// `SCHED_IDLE` has a fifth of the weight of nice 19.
    #[expect(unsafe_code, reason = "no safe wrapper sets the scheduling policy")]
    fn idle() {
        // SAFETY: zero is a valid bit pattern of this plain C struct, and the priority that SCHED_IDLE demands.
        let parameters: libc::sched_param = unsafe { core::mem::zeroed() };
        // SAFETY: process 0 is the caller; the parameters live for the call, which keeps no reference.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } != 0 {
            tracing::warn!(error = %std::io::Error::last_os_error(), "the engine runs at nice 19, not idle");
        }
    }
}
