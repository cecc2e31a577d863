//! The layers of the detector: each a task of its own that watches one outside thing by its events.
//!
//! ```text
//! wayland, mutter, x11 (screens) --.
//! logind, inhibitors (buses) ------+--> sightings --> Detected --> Fuser
//! terminals -----------------------'
//! logind --sessions--> screens, terminals: where to look, and when to look again
//! ```
//!
//! Invariant: no layer blocks a thread, and none waits for an answer without a deadline: a socket that is dead or hangs costs
//! one attempt now and then, and reads as "cannot see".
//!
//! Deliberately absent: raw input devices (nobody's keystrokes are our business), and any decision: that is the fuser's.

#[cfg(target_os = "linux")]
mod bus;
#[cfg(target_os = "linux")]
mod inhibitors;
#[cfg(target_os = "linux")]
mod keep;
#[cfg(target_os = "linux")]
mod logind;
#[cfg(target_os = "linux")]
mod mutter;
#[cfg(target_os = "linux")]
mod surroundings;
#[cfg(target_os = "linux")]
mod terminals;
#[cfg(target_os = "linux")]
mod utmp;
#[cfg(target_os = "linux")]
mod wayland;
#[cfg(target_os = "linux")]
mod x11;
#[cfg(target_os = "linux")]
mod xauthority;
#[cfg(target_os = "linux")]
mod xconnection;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::sighting::{LayerKind, Sighting};

/// How long a screen must be without input before its layer tells. One alarm is enough: what an owner needs beyond the shorter
/// of the two delays the fuser counts for itself, since a layer that is quiet tells the next input at once.
pub(super) fn alarm(delay: Duration) -> Duration {
    delay.min(super::fuse::LOCK_DELAY)
}

/// Starts every layer of this system; they end when the set is dropped. `delay` is how long without input makes an
/// owner away.
#[cfg(target_os = "linux")]
pub(super) fn start(delay: Duration, sightings: &mpsc::Sender<(LayerKind, Sighting)>) -> (Vec<LayerKind>, JoinSet<()>) {
    use keep::{Logins, Outlet, keep};

    let alarm = alarm(delay);
    let (publish, logins) = tokio::sync::watch::channel(Logins::Looking);
    let outlet = |kind| Outlet { kind, alarm, sightings: sightings.clone(), logins: logins.clone() };
    let mut tasks = JoinSet::new();
    tasks.spawn(keep(outlet(LayerKind::Logind), move |out| logind::watch(out, publish.clone())));
    tasks.spawn(keep(outlet(LayerKind::Wayland), wayland::watch));
    tasks.spawn(keep(outlet(LayerKind::Mutter), mutter::watch));
    tasks.spawn(keep(outlet(LayerKind::X11), x11::watch));
    tasks.spawn(keep(outlet(LayerKind::Inhibitors), inhibitors::watch));
    tasks.spawn(terminals::watch(outlet(LayerKind::Terminals)));
    (LayerKind::ALL.to_vec(), tasks)
}

/// Nothing can be seen on this system yet, so that its owner counts as present.
#[cfg(not(target_os = "linux"))]
pub(super) fn start(
    _delay: Duration,
    sightings: &mpsc::Sender<(LayerKind, Sighting)>,
) -> (Vec<LayerKind>, JoinSet<()>) {
    let sightings = sightings.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let why = "on this system no input can be seen yet".to_owned();
        // The detector is gone only when nobody listens any more.
        sightings.send((LayerKind::X11, Sighting::Blind { why })).await.ok();
        std::future::pending().await
    });
    (vec![LayerKind::X11], tasks)
}
