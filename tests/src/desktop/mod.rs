//! A desktop without a person: an X server, compositors, buses, a scripted logind, and sockets that never answer.
//!
//! They are what people run (Xvfb, GNOME's mutter, dbus-daemon), or speak the same protocol (a compositor of our own for
//! `ext_idle_notifier_v1`, python3-dbusmock for logind). Input is synthetic. Each ends when it is dropped.

mod bus;
mod compositor;
mod mutter;
mod part;
mod porch;
mod reaction;
mod screen;
mod script;
mod seat;
mod silent;

pub use bus::Bus;
pub use compositor::Compositor;
pub use mutter::Mutter;
pub use porch::{Lookout, Porch};
pub use reaction::{Engine, Reaction, World};
pub use screen::Screen;
pub use script::Script;
pub use seat::{Seat, Sight};
pub use silent::Silent;
