//! The layers of the detector: each a task of its own that watches one outside thing, by its events where it has any.
//!
//! ```text
//! screens ---------------------.      linux: Wayland, GNOME, X11; logind, inhibitors; terminals; lookouts in other sessions
//! logins and inhibitors -------+--> sightings --> Detected --> Fuser
//! terminals -------------------+      macos: the counter of the input devices' driver
//! lookouts --------------------'      windows: the session's last input, and who else is logged on
//! ```
//!
//! Invariant: no layer blocks a thread, and none waits for an answer without a deadline: a socket that is dead or hangs costs
//! one attempt now and then, and reads as "cannot see".
//!
//! Deliberately absent: raw input devices (nobody's keystrokes are our business), and any decision: that is the fuser's.

mod keep;
#[cfg(target_os = "linux")]
mod linux;
// Tests run what is no system call of these two on any system.
#[cfg(any(target_os = "macos", test))]
mod macos;
mod polled;
#[cfg(any(target_os = "windows", test))]
mod windows;

use std::time::Duration;

/// How long a screen must be without input before its layer tells. One alarm is enough: what an owner needs beyond the shorter
/// of the two delays the fuser counts for itself, since a layer that is quiet tells the next input at once.
pub(super) fn alarm(delay: Duration) -> Duration {
    delay.min(super::fuse::LOCK_DELAY)
}

#[cfg(target_os = "linux")]
pub(super) use keep::is_nobody_there;
#[cfg(target_os = "linux")]
pub(super) use linux::{is_service, start, start_in_session};
#[cfg(target_os = "macos")]
pub(super) use macos::start;
#[cfg(target_os = "windows")]
pub(super) use windows::start;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::is_service;
#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "windows")))]
pub(super) use elsewhere::start;

/// What is not Linux.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    #[cfg(not(any(target_os = "macos", target_os = "windows")))]
    pub(in crate::owner) use unknown::start;

    /// Whether this process belongs to a system's account: not told from others here.
    pub(in crate::owner) fn is_service() -> bool {
        false
    }

    /// Systems on which nothing can be seen: their owners count as present.
    #[cfg(not(any(target_os = "macos", target_os = "windows")))]
    mod unknown {
        use std::path::PathBuf;
        use std::time::Duration;

        use tokio::sync::mpsc;
        use tokio::task::JoinSet;

        use crate::owner::sighting::{LayerKind, Sighting};

        /// Starts nothing.
        pub(in crate::owner) fn start(
            _delay: Duration,
            _lookouts: Option<PathBuf>,
            sightings: &mpsc::Sender<(LayerKind, Sighting)>,
        ) -> (Vec<LayerKind>, JoinSet<()>) {
            let sightings = sightings.clone();
            let mut tasks = JoinSet::new();
            tasks.spawn(async move {
                let why = "on this system no input can be seen".to_owned();
                // The detector is gone only when nobody listens any more.
                sightings.send((LayerKind::X11, Sighting::Blind { why })).await.ok();
                std::future::pending().await
            });
            (vec![LayerKind::X11], tasks)
        }
    }
}
