//! A machine's screen with somebody at it, in each of the forms in which an agent may see it.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::{Bus, Compositor, Lookout, Mutter, Porch, Screen, Script};
use crate::{Lab, Launch};

/// The account of whoever has the screen that a lookout watches: "nobody", since a bus lets in none that the machine does not
/// have.
const ANNA: u32 = 65534;

/// How input is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// At an X server, by its idle counter.
    X11,
    /// At a Wayland compositor, by `ext_idle_notifier_v1`.
    Wayland,
    /// At GNOME's compositor, by its idle monitor.
    Gnome,
    /// At another account's screen, by what its desktop tells logind.
    Logind,
    /// At another account's X screen, by that account's lookout.
    Lookout,
}

impl Sight {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::X11, Self::Wayland, Self::Gnome, Self::Logind, Self::Lookout];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X11 => "an X screen",
            Self::Wayland => "a Wayland screen",
            Self::Gnome => "GNOME's screen",
            Self::Logind => "logind",
            Self::Lookout => "a lookout",
        }
    }
}

/// Somebody's seat. It ends when it is dropped.
pub struct Seat {
    screen: Shown,
    logind: Script,
    bus: Bus,
}

enum Shown {
    X11(Screen),
    Wayland(Compositor),
    Gnome(Mutter, PathBuf),
    /// Seen by nothing but logind's word for it.
    Elsewhere,
    /// By a lookout, which ends when it is dropped.
    Watched {
        screen: Screen,
        porch: Porch,
        _lookout: Lookout,
    },
}

impl Seat {
    /// Puts one up.
    pub fn start(lab: &Lab, sight: Sight) -> Result<Self> {
        let bus = Bus::start(lab, "both")?;
        let mut logind = Script::logind(&bus)?;
        let screen = match sight {
            Sight::X11 => Shown::X11(Screen::start()?),
            Sight::Wayland => Shown::Wayland(Compositor::start(lab)?),
            Sight::Gnome => Shown::Gnome(Mutter::start(lab, &bus)?, lab.files().join("mutter")),
            Sight::Logind => Shown::Elsewhere,
            Sight::Lookout => {
                let (screen, porch) = (Screen::start()?, Porch::open(lab)?);
                logind.say(&format!("session 1 {ANNA} anna x11"))?;
                let lookout = porch.lookout(ANNA, &bus, screen.display())?;
                Shown::Watched { screen, porch, _lookout: lookout }
            }
        };
        match sight {
            Sight::X11 => logind.say("session 1 0 root x11")?,
            Sight::Wayland | Sight::Gnome => logind.say("session 1 0 root wayland")?,
            Sight::Logind => logind.say("session 1 4711 anna wayland")?,
            Sight::Lookout => {}
        }
        Ok(Self { screen, logind, bus })
    }

    /// Makes it known to an agent.
    pub fn dress(&self, launch: Launch) -> Launch {
        let launch = launch.variable("DBUS_SYSTEM_BUS_ADDRESS", self.bus.address());
        match &self.screen {
            Shown::X11(screen) => launch.variable("DISPLAY", screen.display()),
            Shown::Wayland(compositor) => launch.variable("WAYLAND_DISPLAY", compositor.socket()),
            Shown::Gnome(_, runtime) => launch
                .variable("DBUS_SESSION_BUS_ADDRESS", self.bus.address())
                .variable("XDG_RUNTIME_DIR", runtime)
                .variable("WAYLAND_DISPLAY", "wayland-0"),
            Shown::Elsewhere => launch,
            Shown::Watched { porch, .. } => launch.set("owner.lookout_socket", porch.socket()),
        }
    }

    /// Input; says when it was given.
    pub fn input(&mut self) -> Result<Instant> {
        let began = Instant::now();
        match &mut self.screen {
            Shown::X11(screen) | Shown::Watched { screen, .. } => return screen.input(),
            Shown::Wayland(compositor) => return compositor.input(),
            Shown::Gnome(mutter, _) => mutter.input()?,
            Shown::Elsewhere => self.logind.say("set 1 IdleHint false")?,
        }
        Ok(began)
    }

    /// Nobody is there from now on. Screens find that out by themselves, after the delay.
    pub fn rest(&mut self) -> Result<()> {
        if matches!(self.screen, Shown::Elsewhere) {
            self.logind.say("set 1 IdleSinceHintMonotonic 1000000")?;
            self.logind.say("set 1 IdleHint true")?;
        }
        Ok(())
    }
}
