//! Where the screens of this user's session are: by this process's environment, else by what the session's manager and logind
//! know. A service that started before the display finds it so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio::net::UnixStream;
use zbus::{Connection, OwnedVariant};

use super::bus::{self, Object};
use super::keep::Trouble;
use crate::owner::lookout::FIRST_PERSON;
use crate::owner::sighting::{SeenSession, Shows};

const USER_MANAGER: Object<'static> = Object {
    name: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.DBus.Properties",
};

/// Sockets that a compositor takes if nothing else is said.
const USUAL_SOCKETS: [&str; 3] = ["wayland-0", "wayland-1", "wayland-2"];

/// Where X servers have their sockets.
const X_SOCKETS: &str = "/tmp/.X11-unix";

/// Entries of that folder that are looked at.
const X_SOCKETS_MAX: usize = 32;

/// The screens as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Screens {
    /// The compositor's socket.
    pub(super) wayland: Option<PathBuf>,
    /// The X display.
    pub(super) display: Option<String>,
    /// The file with its cookie.
    pub(super) authority: Option<PathBuf>,
    /// Whether the session is Wayland's, so that X sees only some of the input.
    pub(super) is_wayland: bool,
}

impl Screens {
    /// Looks for them.
    pub(super) async fn look(sessions: &[SeenSession]) -> Self {
        let own = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let runtime =
            own("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{}", rustix::process::geteuid().as_raw()));
        let is_told = own("WAYLAND_DISPLAY").is_some() || own("DISPLAY").is_some();
        let managed = if is_told { BTreeMap::new() } else { manager_environment().await.unwrap_or_default() };
        let value = |name: &str| own(name).or_else(|| managed.get(name).cloned());
        let ours: Vec<&SeenSession> = sessions.iter().filter(|s| s.is_ours && s.is_on_screen()).collect();
        let shows = |kind: Shows| ours.iter().any(|session| session.shows == kind);
        let mut wayland = value("WAYLAND_DISPLAY").map(|name| PathBuf::from(&runtime).join(name));
        if wayland.is_none() && shows(Shows::Wayland) {
            let usual = USUAL_SOCKETS.map(|name| PathBuf::from(&runtime).join(name));
            wayland = usual.into_iter().find(|socket| socket.exists());
        }
        let session_display = ours.iter().map(|session| session.display.clone()).find(|display| !display.is_empty());
        let is_x = !shows(Shows::Wayland) && (shows(Shows::X11) || wayland.is_none());
        let names_wayland = value("XDG_SESSION_TYPE").as_deref() == Some("wayland") && ours.is_empty();
        Self {
            is_wayland: !is_x || names_wayland,
            wayland,
            display: value("DISPLAY").or(session_display),
            authority: value("XAUTHORITY").map(PathBuf::from),
        }
    }
}

/// Whether this process belongs to the system and not to a person: it runs as one of the system's accounts, and nothing tells
/// it of a screen.
pub(in crate::owner) fn is_service() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    rustix::process::geteuid().as_raw() < FIRST_PERSON && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY")
}

/// The environment that the session's manager gives to programs: a desktop puts its screens there.
async fn manager_environment() -> Result<BTreeMap<String, String>, Trouble> {
    let bus: Connection = bus::session().await?;
    if !bus::is_there(&bus, USER_MANAGER.name).await? {
        return Ok(BTreeMap::new());
    }
    let property = ("org.freedesktop.systemd1.Manager", "Environment");
    let value: OwnedVariant = USER_MANAGER.call(&bus, "Get", &property).await?;
    let entries = Vec::<String>::try_from(value).unwrap_or_default();
    let pairs = entries.iter().filter_map(|entry| entry.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// An X server of this machine that answers to a connection, such as `:0`.
pub(super) async fn stray_display() -> Option<String> {
    let mut folder = tokio::fs::read_dir(X_SOCKETS).await.ok()?;
    for _ in 0..X_SOCKETS_MAX {
        let entry = folder.next_entry().await.ok()??;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(number) = name.strip_prefix('X')
            && UnixStream::connect(entry.path()).await.is_ok()
        {
            return Some(format!(":{number}"));
        }
    }
    None
}
