//! GNOME: `org.gnome.Mutter.IdleMonitor` on the session bus, for Wayland and X11 sessions alike.

use std::convert::Infallible;
use std::time::Duration;

use futures::stream::StreamExt;
use tokio::time::timeout;
use zbus::{Connection, Message};

use super::bus::{self, Object};
use super::keep::{ALIVE_EVERY, Outlet, Trouble};
use crate::owner::sighting::Sighting;
use crate::owner::times::since_boot;

const MONITOR: Object<'static> = Object {
    name: "org.gnome.Mutter.IdleMonitor",
    path: "/org/gnome/Mutter/IdleMonitor/Core",
    interface: "org.gnome.Mutter.IdleMonitor",
};

/// By how much its alarm may come before its counter reads the alarm's time. What is left of the delay the fuser waits for.
const EARLY: Duration = Duration::from_millis(50);

pub(super) async fn watch(out: Outlet) -> Result<Infallible, Trouble> {
    let bus = bus::session().await?;
    if !bus::is_there(&bus, MONITOR.name).await? {
        return Err(Trouble::Absent("no GNOME desktop is on the session bus".to_owned()));
    }
    let mut signals = bus::signals(&bus, MONITOR.name).await?;
    let alarm_ms = u64::try_from(out.alarm.as_millis()).unwrap_or(u64::MAX);
    // Fires each time that there was no input for so long.
    let quiet: u32 = MONITOR.call(&bus, "AddIdleWatch", &alarm_ms).await?;
    watch_for_input(&bus).await?;
    let mut is_quiet = look(&bus, &out).await?;
    loop {
        let patience = if is_quiet { ALIVE_EVERY } else { Duration::MAX };
        match timeout(patience, signals.next()).await {
            Ok(None) => return Err(bus::closed("the session bus")),
            Ok(Some(Ok(signal))) => match event(&signal, quiet) {
                Event::Input => {
                    is_quiet = false;
                    out.say(Sighting::Active).await;
                }
                Event::Quiet => {
                    watch_for_input(&bus).await?;
                    is_quiet = look(&bus, &out).await?;
                }
                Event::Gone => return Err(Trouble::Absent("GNOME has left the session bus".to_owned())),
                Event::Other => {}
            },
            Ok(Some(Err(_))) => {}
            Err(_) => is_quiet = look(&bus, &out).await?,
        }
    }
}

enum Event {
    /// The first input after a quiet time.
    Input,
    Quiet,
    Gone,
    Other,
}

fn event(signal: &Message, quiet: u32) -> Event {
    match signal.header().member().map(zbus::names::MemberName::as_str) {
        Some("WatchFired") => match signal.body().deserialize::<u32>() {
            Ok(id) if id == quiet => Event::Quiet,
            // Whatever else fires is a watch of activity: a stray one makes the owner present, which harms nobody.
            Ok(_) => Event::Input,
            Err(_) => Event::Other,
        },
        Some("NameOwnerChanged") => Event::Gone,
        Some(_) | None => Event::Other,
    }
}

/// Has the next input told, once. Comes before the counter is read: input between the two is seen by one of them.
async fn watch_for_input(bus: &Connection) -> Result<(), Trouble> {
    MONITOR.call::<_, u32>(bus, "AddUserActiveWatch", &()).await.map(drop)
}

/// Reads the counter and tells it; true where the screen is quiet.
async fn look(bus: &Connection, out: &Outlet) -> Result<bool, Trouble> {
    let idle_ms: u64 = MONITOR.call(bus, "GetIdletime", &()).await?;
    let idle = Duration::from_millis(idle_ms);
    let is_quiet = idle + EARLY >= out.alarm;
    out.say(if is_quiet { Sighting::Quiet { since: since_boot().saturating_sub(idle) } } else { Sighting::Active })
        .await;
    Ok(is_quiet)
}
