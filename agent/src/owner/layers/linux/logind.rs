//! logind: who is logged in, whose screen is locked, whom a desktop calls idle, and who inhibits idleness.
//!
//! Every signal means "read it all again": sessions are few, and a signal that is lost or unknown then costs nothing but the
//! time to the next look.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use futures::stream::StreamExt;
use tokio::sync::watch;
use tokio::time::timeout;
use zbus::{Connection, Message, OwnedObjectPath, OwnedVariant, Variant};

use super::bus::{self, Object};
use super::keep::{Logins, Outlet, Trouble};
use crate::owner::sighting::{SeenSession, Shows, Sighting};
use crate::owner::times::{of_monotonic, since_boot};

const NAME: &str = "org.freedesktop.login1";

const SESSION: &str = "org.freedesktop.login1.Session";

const MANAGER: Object<'static> =
    Object { name: NAME, path: "/org/freedesktop/login1", interface: "org.freedesktop.login1.Manager" };

/// Between two looks without a signal: also how soon a logind that hangs is found out.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// As `ListSessions` has it: id, uid, user, seat, path.
type Listed = (String, u32, String, String, OwnedObjectPath);

/// As `ListInhibitors` has it: what, who, why, mode, uid, pid.
type Inhibitor = (String, String, String, String, u32, u32);

type Properties = HashMap<String, OwnedVariant>;

/// Tells what logind says, to the detector and to the other layers.
pub(super) async fn watch(out: Outlet, publish: watch::Sender<Logins>) -> Result<Infallible, Trouble> {
    let ended = follow(&out, &publish).await;
    publish.send_replace(Logins::Unknown);
    ended
}

async fn follow(out: &Outlet, publish: &watch::Sender<Logins>) -> Result<Infallible, Trouble> {
    let bus = bus::system().await?;
    if !bus::is_there(&bus, NAME).await? {
        return Err(Trouble::Absent("logind does not run here".to_owned()));
    }
    let mut signals = bus::signals(&bus, NAME).await?;
    let mut said = None;
    let mut unlocked = Unlocked::default();
    loop {
        let (sessions, inhibitors) = read(&bus, &mut unlocked).await?;
        let logins = Logins::Known(sessions.clone());
        publish.send_if_modified(|known| {
            let is_new = *known != logins;
            *known = logins;
            is_new
        });
        let sighting = Some(Sighting::Logins { sessions, inhibitors });
        if said != sighting {
            said.clone_from(&sighting);
            if let Some(sighting) = sighting {
                out.say(sighting).await;
            }
        }
        match timeout(LOOK_EVERY, signals.next()).await {
            Ok(None) => return Err(bus::closed("the system bus")),
            Ok(Some(signal)) => {
                let all = std::iter::once(signal).chain(bus::drain(&mut signals));
                all.flatten().for_each(|signal| note_unlocking(&signal, &mut unlocked));
            }
            Err(_) => {}
        }
    }
}

/// When sessions were unlocked, by their paths.
type Unlocked = HashMap<String, Duration>;

/// Unlocking is the one thing that is in a signal and in no property: whoever is let in by the login screen comes back so.
fn note_unlocking(signal: &Message, unlocked: &mut Unlocked) {
    let header = signal.header();
    let is_of_session = header.interface().is_some_and(|interface| interface.as_str() == SESSION);
    let is_unlock = header.member().is_some_and(|member| member.as_str() == "Unlock");
    if let Some(path) = header.path().filter(|_| is_of_session && is_unlock) {
        unlocked.insert(path.to_string(), since_boot());
    }
}

async fn read(bus: &Connection, unlocked: &mut Unlocked) -> Result<(Vec<SeenSession>, Vec<String>), Trouble> {
    let listed: Vec<Listed> = MANAGER.call(bus, "ListSessions", &()).await?;
    unlocked.retain(|path, _| listed.iter().any(|(.., known)| known.as_str() == path));
    let mut sessions = Vec::new();
    for (id, uid, user, _, path) in listed {
        let properties = Object { name: NAME, path: path.as_str(), interface: "org.freedesktop.DBus.Properties" };
        let read: Result<Properties, Trouble> = properties.call(bus, "GetAll", &SESSION).await;
        match read {
            Ok(properties) => {
                let unlocked = unlocked.get(path.as_str()).copied();
                sessions.extend(session(id, (uid, user), &properties).map(|seen| SeenSession { unlocked, ..seen }));
            }
            // It has ended since it was listed; a logind that hangs does not answer to the list either.
            Err(Trouble::Absent(_)) => {}
            Err(trouble) if is_still_listed(bus, &id).await? => return Err(trouble),
            Err(_) => {}
        }
    }
    sessions.sort_by(|a, b| a.id.cmp(&b.id));
    let inhibitors: Vec<Inhibitor> = MANAGER.call(bus, "ListInhibitors", &()).await?;
    let idle = |what: &str| what.split(':').any(|word| word == "idle");
    let blocking = inhibitors.into_iter().filter(|(what, _, _, mode, ..)| mode == "block" && idle(what));
    Ok((sessions, blocking.map(|(_, who, why, ..)| format!("{who} ({why})")).collect()))
}

async fn is_still_listed(bus: &Connection, id: &str) -> Result<bool, Trouble> {
    let listed: Vec<Listed> = MANAGER.call(bus, "ListSessions", &()).await?;
    Ok(listed.iter().any(|(known, ..)| known == id))
}

/// A session of a person; none for those of the login screen, of services and of managers.
fn session(id: String, (uid, user): (u32, String), properties: &Properties) -> Option<SeenSession> {
    let text = |name: &str| match properties.get(name).map(|value| &**value) {
        Some(Variant::Str(text)) => text.to_string(),
        Some(_) | None => String::new(),
    };
    let is = |name: &str| matches!(properties.get(name).map(|value| &**value), Some(Variant::Bool(true)));
    let class = text("Class");
    if !class.starts_with("user") || class == "user-incomplete" {
        return None;
    }
    let idle_since = match properties.get("IdleSinceHintMonotonic").map(|value| &**value) {
        Some(Variant::U64(us)) if is("IdleHint") => Some(of_monotonic(Duration::from_micros(*us))),
        Some(_) | None => None,
    };
    let shows = match text("Type").as_str() {
        "wayland" => Shows::Wayland,
        "x11" | "mir" => Shows::X11,
        _ => Shows::Text,
    };
    Some(SeenSession {
        id,
        user,
        uid,
        is_ours: uid == rustix::process::geteuid().as_raw(),
        shows,
        is_in_front: is("Active") && text("State") != "closing",
        is_locked: is("LockedHint"),
        unlocked: None,
        idle_since: idle_since.map(whole_seconds),
        tty: text("TTY"),
        display: text("Display"),
    })
}

/// The two clocks are not read at the same moment: without this the same instant would differ from look to look.
fn whole_seconds(instant: Duration) -> Duration {
    Duration::from_secs((instant + Duration::from_millis(500)).as_secs())
}
