//! What the desktop's own programs inhibit: a film in a browser, a presentation, a call.
//!
//! GNOME's session manager lists what blocks idleness; KDE, Xfce and others answer to the older
//! `org.freedesktop.PowerManagement.Inhibit`. `org.freedesktop.ScreenSaver`, by which programs ask for it, lets nobody ask
//! who did.

use std::convert::Infallible;
use std::time::Duration;

use futures::stream::{StreamExt, select};
use tokio::time::timeout;
use zbus::{Connection, OwnedObjectPath};

use super::bus::{self, Object};
use super::keep::{Outlet, Trouble};
use crate::owner::sighting::Sighting;

const GNOME: Object<'static> = Object {
    name: "org.gnome.SessionManager",
    path: "/org/gnome/SessionManager",
    interface: "org.gnome.SessionManager",
};

const OTHERS: Object<'static> = Object {
    name: "org.freedesktop.PowerManagement.Inhibit",
    path: "/org/freedesktop/PowerManagement/Inhibit",
    interface: "org.freedesktop.PowerManagement.Inhibit",
};

/// GNOME's flag for "marks the session as idle".
const IDLE: u32 = 8;

/// More inhibitors than this are not asked for their names.
const NAMED: usize = 8;

/// Between two looks without a signal.
const LOOK_EVERY: Duration = Duration::from_mins(1);

pub(super) async fn watch(out: Outlet) -> Result<Infallible, Trouble> {
    let bus = bus::session().await?;
    let mut signals = select(bus::signals(&bus, GNOME.name).await?, bus::signals(&bus, OTHERS.name).await?);
    let mut said = None;
    loop {
        let sighting = Some(read(&bus).await?);
        if said != sighting {
            said.clone_from(&sighting);
            if let Some(sighting) = sighting {
                out.say(sighting).await;
            }
        }
        match timeout(LOOK_EVERY, signals.next()).await {
            Ok(None) => return Err(bus::closed("the session bus")),
            Ok(Some(_)) => drop(bus::drain(&mut signals)),
            Err(_) => {}
        }
    }
}

async fn read(bus: &Connection) -> Result<Sighting, Trouble> {
    let (gnome, others) = (bus::is_there(bus, GNOME.name).await?, bus::is_there(bus, OTHERS.name).await?);
    if !gnome && !others {
        let why = "no session manager on the session bus tells what inhibits idleness".to_owned();
        return Ok(Sighting::Absent { why });
    }
    let mut by = Vec::new();
    if gnome && GNOME.call(bus, "IsInhibited", &IDLE).await? {
        by = names(bus).await?;
        if by.is_empty() {
            by.push("a program".to_owned());
        }
    }
    if others && OTHERS.call(bus, "HasInhibit", &()).await? {
        by.push("a program that asked the power manager".to_owned());
    }
    Ok(Sighting::Inhibited { by })
}

/// Who keeps GNOME's session from being idle, and why.
async fn names(bus: &Connection) -> Result<Vec<String>, Trouble> {
    let paths: Vec<OwnedObjectPath> = GNOME.call(bus, "GetInhibitors", &()).await?;
    let mut names = Vec::new();
    for path in paths.iter().take(NAMED) {
        let inhibitor =
            Object { name: GNOME.name, path: path.as_str(), interface: "org.gnome.SessionManager.Inhibitor" };
        // One that has gone since it was listed has no name to show.
        let Ok(flags) = inhibitor.call::<_, u32>(bus, "GetFlags", &()).await else { continue };
        if flags & IDLE == 0 {
            continue;
        }
        let who: String = inhibitor.call(bus, "GetAppId", &()).await.unwrap_or_default();
        let why: String = inhibitor.call(bus, "GetReason", &()).await.unwrap_or_default();
        names.push(format!("{who} ({why})"));
    }
    Ok(names)
}
