//! The owner's programs come first: the child asks for the least of the processor and of the disk, and to die with its parent.
//!
//! Where the kernel groups tasks by session (autogroup) or by control group, `SCHED_IDLE` and nice count among the tasks of one
//! group only, and a group of nothing but idle tasks has its whole share. So the child's session, which its parent has made
//! for it, is at nice 19 as a group too, unless it is to have that share. What control groups do lies with whoever made them:
//! `idlewild doctor` tells.

/// How far the child steps back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Courtesy {
    /// After the programs of all sessions.
    YieldToAll,
    /// After the programs of its own session, which has its share beside the others.
    Share,
}

/// Lowers this process (call it before any thread is started: threads inherit it). What fails is logged and not fatal.
pub(crate) fn lower(courtesy: Courtesy) {
    #[cfg(unix)]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::warn!(%error, "the engine keeps its priority");
    }
    #[cfg(target_os = "linux")]
    linux::lower(courtesy);
    #[cfg(not(target_os = "linux"))]
    let _ = courtesy;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, ErrorKind};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, getsid, set_parent_process_death_signal};

    use super::Courtesy;

    /// The kernel permits one change of an autogroup in a tenth of a second, whoever makes it.
    const GROUP_PAUSE: Duration = Duration::from_millis(110);

    /// Attempts at it. Others change theirs as rarely as we do.
    const GROUP_ATTEMPTS: u32 = 5;

    /// `IOPRIO_CLASS_IDLE` in the place of the class, of linux/ioprio.h; this class has no levels.
    const DISK_IDLE: libc::c_long = 3 << 13;

    /// `IOPRIO_WHO_PROCESS`, of the same.
    const WHO_PROCESS: libc::c_long = 1;

    pub(super) fn lower(courtesy: Courtesy) {
        if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
            tracing::warn!(%error, "the engine would outlive a parent that is killed, until its pipe closes");
        }
        if courtesy == Courtesy::YieldToAll
            && let Err(error) = lower_session()
        {
            tracing::warn!(%error, "the engine's session has the weight of any other");
        }
        disk();
        // Alone in a group that has its share, it has nobody to come after; and the kernel takes a processor that runs
        // nothing but idle tasks for a free one.
        if courtesy == Courtesy::YieldToAll {
            idle();
        }
    }

    /// Puts the session's group of tasks at nice 19: 15 against the 1024 of another session. Only if the session is ours:
    /// else it would be the owner's shell that is slowed down.
    fn lower_session() -> io::Result<()> {
        if getsid(None)? != getpid() {
            tracing::debug!("the engine shares a session with other programs");
            return Ok(());
        }
        for _ in 1..GROUP_ATTEMPTS {
            match std::fs::write("/proc/self/autogroup", "19") {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(GROUP_PAUSE),
                // A kernel without autogroups.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                done => return done,
            }
        }
        std::fs::write("/proc/self/autogroup", "19")
    }

    /// What it reads waits for what others read, where the disk's scheduler knows classes (BFQ, mq-deadline).
    #[expect(unsafe_code, reason = "no safe wrapper sets the class")]
    fn disk() {
        // SAFETY: takes three numbers and no pointer; process 0 is the caller.
        if unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0 as libc::c_long, DISK_IDLE) } != 0 {
            tracing::warn!(error = %io::Error::last_os_error(), "the engine reads from the disk like any program");
        }
    }

    /// `SCHED_IDLE` has a fifth of the weight of nice 19.
    #[expect(unsafe_code, reason = "no safe wrapper sets the scheduling policy")]
    fn idle() {
        // SAFETY: zero is a valid bit pattern of this plain C struct, and the priority that SCHED_IDLE demands.
        let parameters: libc::sched_param = unsafe { core::mem::zeroed() };
        // SAFETY: process 0 is the caller; the parameters live for the call, which keeps no reference.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } != 0 {
            tracing::warn!(error = %io::Error::last_os_error(), "the engine runs at nice 19, not idle");
        }
    }
}
