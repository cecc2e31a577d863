//! Linux: screens by their own protocols, logins and inhibitors by the buses, terminals by their devices, and other sessions by
//! their lookouts.
//!
//! ```text
//! logind --sessions--> screens, terminals, lookouts: where to look, when to look again, and whom to listen to
//! ```

mod bus;
mod inhibitors;
mod logind;
mod lookouts;
mod mutter;
mod surroundings;
mod terminals;
mod utmp;
mod wayland;
mod x11;
mod xauthority;
mod xconnection;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::keep::{Logins, Outlet, keep};
use super::{alarm, keep, polled};
use crate::owner::sighting::{LayerKind, Sighting};
pub(in crate::owner) use surroundings::is_service;

/// Layers that are being started.
struct Starting<'s> {
    alarm: Duration,
    sightings: &'s mpsc::Sender<(LayerKind, Sighting)>,
    logins: watch::Receiver<Logins>,
    kinds: Vec<LayerKind>,
    tasks: JoinSet<()>,
}

impl Starting<'_> {
    fn outlet(&mut self, kind: LayerKind) -> Outlet {
        self.kinds.push(kind);
        Outlet { kind, alarm: self.alarm, sightings: self.sightings.clone(), logins: self.logins.clone() }
    }
}

/// Starts every layer; they end when the set is dropped. `delay` is how long without input makes an owner away, `lookouts`
/// the socket at which lookouts of other sessions are heard.
pub(in crate::owner) fn start(
    delay: Duration,
    lookouts: Option<PathBuf>,
    sightings: &mpsc::Sender<(LayerKind, Sighting)>,
) -> (Vec<LayerKind>, JoinSet<()>) {
    let mut starting = of_session(alarm(delay), sightings);
    let terminals = starting.outlet(LayerKind::Terminals);
    starting.tasks.spawn(terminals::watch(terminals));
    let hearing = starting.outlet(LayerKind::Lookouts);
    starting.tasks.spawn(keep(hearing, move |out| lookouts::watch(out, lookouts.clone())));
    (starting.kinds, starting.tasks)
}

/// Starts what a lookout needs: what is seen from inside a session only, and logind, which says where to look. A screen is
/// told to be quiet after `alarm`.
pub(in crate::owner) fn start_in_session(
    alarm: Duration,
    sightings: &mpsc::Sender<(LayerKind, Sighting)>,
) -> (Vec<LayerKind>, JoinSet<()>) {
    let started = of_session(alarm, sightings);
    (started.kinds, started.tasks)
}

fn of_session(alarm: Duration, sightings: &mpsc::Sender<(LayerKind, Sighting)>) -> Starting<'_> {
    let (publish, logins) = watch::channel(Logins::Looking);
    let mut starting = Starting { alarm, sightings, logins, kinds: Vec::new(), tasks: JoinSet::new() };
    let logind = starting.outlet(LayerKind::Logind);
    starting.tasks.spawn(keep(logind, move |out| logind::watch(out, publish.clone())));
    let wayland = starting.outlet(LayerKind::Wayland);
    starting.tasks.spawn(keep(wayland, wayland::watch));
    let mutter = starting.outlet(LayerKind::Mutter);
    starting.tasks.spawn(keep(mutter, mutter::watch));
    let x11 = starting.outlet(LayerKind::X11);
    starting.tasks.spawn(keep(x11, x11::watch));
    let inhibitors = starting.outlet(LayerKind::Inhibitors);
    starting.tasks.spawn(keep(inhibitors, inhibitors::watch));
    starting
}
