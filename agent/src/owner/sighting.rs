//! What each layer of the detector sees, in the words that all of them share.
//!
//! Instants are time since the machine started, sleep included ([`super::times`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::OwnerReport;

/// One way to see whether somebody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// The Wayland compositor's `ext_idle_notifier_v1`.
    Wayland,
    /// GNOME's `org.gnome.Mutter.IdleMonitor`.
    Mutter,
    /// The X server's idle counter.
    X11,
    /// logind: who is logged in, what is locked, who inhibits idleness.
    Logind,
    /// What the desktop's own programs inhibit.
    Inhibitors,
    /// Text terminals, the remote ones too.
    Terminals,
    /// Lookouts in other sessions.
    Lookouts,
    /// The driver of keyboards and pointers of macOS.
    Macos,
    /// The last input of a session of Windows.
    Windows,
}

impl LayerKind {
    /// Every layer, of all systems.
    pub const ALL: [Self; 9] = [
        Self::Wayland,
        Self::Mutter,
        Self::X11,
        Self::Logind,
        Self::Inhibitors,
        Self::Terminals,
        Self::Lookouts,
        Self::Macos,
        Self::Windows,
    ];

    /// Whether it sees input at a screen.
    pub fn is_screen(self) -> bool {
        matches!(self, Self::Wayland | Self::Mutter | Self::X11 | Self::Macos | Self::Windows)
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wayland => "Wayland",
            Self::Mutter => "GNOME",
            Self::X11 => "X11",
            Self::Logind => "logind",
            Self::Inhibitors => "inhibitors",
            Self::Terminals => "terminals",
            Self::Lookouts => "lookouts",
            Self::Macos => "macOS",
            Self::Windows => "Windows",
        }
    }
}

/// What one layer sees now. It holds until the layer says something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// It has not answered yet.
    Looking,
    /// There is nothing that it could see.
    Absent {
        /// Why not, in words.
        why: String,
    },
    /// There is something, and it cannot see it.
    Blind {
        /// Why not, in words.
        why: String,
    },
    /// A screen gets input, or got some less than the alarm's time ago.
    Active,
    /// A screen has had no input since then, and the layer tells at once when it has.
    Quiet {
        /// The last input.
        since: Duration,
    },
    /// Who is logged in (logind), and what inhibits idleness.
    Logins {
        /// Every session.
        sessions: Vec<SeenSession>,
        /// Who inhibits idleness, and why.
        inhibitors: Vec<String>,
    },
    /// What inhibits idleness, and why.
    Inhibited {
        /// Each in words.
        by: Vec<String>,
    },
    /// Terminals at which somebody is logged in.
    Terminals(Vec<SeenTerminal>),
    /// What lookouts report who are listened to.
    Lookouts {
        /// Where they are listened to.
        at: String,
        /// What each sees.
        seen: Vec<SeenLookout>,
    },
}

/// What a lookout reports of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLookout {
    /// The account that it runs as, by the kernel's word.
    pub uid: u32,
    /// logind's name of its session, by its own word; none where it knows of none.
    pub session: Option<String>,
    /// What it sees of the screen.
    pub screen: SeenScreen,
    /// What inhibits idleness there, each in words.
    pub inhibited_by: Vec<String>,
}

impl SeenLookout {
    /// Whether it reports of this one of `sessions`: its account's, and the one that it names. One that names none means the
    /// only session of its account that has a screen.
    pub fn is_in(&self, session: &SeenSession, sessions: &[SeenSession]) -> bool {
        let has_screen = |of: &SeenSession| of.uid == self.uid && of.shows != Shows::Text;
        session.uid == self.uid
            && match &self.session {
                Some(name) => *name == session.id,
                None => has_screen(session) && sessions.iter().filter(|of| has_screen(of)).count() == 1,
            }
    }
}

/// What is seen of one screen, by whichever layer sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SeenScreen {
    /// It gets input, or got some a moment ago.
    Active {
        /// The layer that sees it, as people call it.
        by: String,
    },
    /// It has had no input since then, and the next is told at once.
    Quiet {
        /// The layer that sees it.
        by: String,
        /// The last input, in milliseconds on the wire.
        #[serde(rename = "since_ms", with = "milliseconds")]
        since: Duration,
    },
    /// There is one, and its input cannot be seen.
    Unseen {
        /// Why not, in words.
        why: String,
    },
    /// There is none.
    Nothing {
        /// How that is known.
        why: String,
    },
}

/// A time as a whole number.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// A login session, as logind describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSession {
    /// logind's name for it.
    pub id: String,
    /// Whose.
    pub user: String,
    /// That account's number.
    pub uid: u32,
    /// Whether that is the user of this process.
    pub is_ours: bool,
    /// What it shows.
    pub shows: Shows,
    /// Whether it can get input: in front on its seat, or on none (remote).
    pub is_in_front: bool,
    /// Whether its screen is locked.
    pub is_locked: bool,
    /// When it was last unlocked by logind's word, as a login screen does to whom it has let in; none where that was not seen.
    pub unlocked: Option<Duration>,
    /// Since when its desktop calls it idle.
    pub idle_since: Option<Duration>,
    /// Its terminal, such as `pts/0`; empty where it has none.
    pub tty: String,
    /// Its X display, such as `:0`; empty where it has none.
    pub display: String,
}

/// What a session shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// A screen by Wayland.
    Wayland,
    /// A screen by X11.
    X11,
    /// A terminal, or nothing.
    Text,
}

impl SeenSession {
    /// Whether somebody could be at its screen now.
    pub fn is_on_screen(&self) -> bool {
        self.shows != Shows::Text && self.is_in_front
    }
}

/// A terminal with somebody logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTerminal {
    /// Its device below `/dev`.
    pub line: String,
    /// When something was typed there last. The kernel tells it in steps of 8 s.
    pub last_input: Duration,
}

/// All that the detector sees, for `idlewild doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnerSight {
    /// Each layer with what it sees; none where no detector runs.
    pub layers: Vec<(LayerKind, Sighting)>,
    /// What follows from it.
    pub report: Option<OwnerReport>,
    /// When this was put together.
    pub at: Duration,
    /// Whether the detector belongs to the system and not to a person: it has no session of its own to look at.
    pub is_service: bool,
}

impl OwnerSight {
    /// Whether every layer has answered.
    pub fn is_complete(&self) -> bool {
        !self.layers.is_empty() && self.layers.iter().all(|(_, sighting)| *sighting != Sighting::Looking)
    }
}
