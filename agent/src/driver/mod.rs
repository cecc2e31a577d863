//! The driver.

mod catalogue;
mod clock;
mod desk;

pub use catalogue::{Catalogue, KnownModel};
pub use clock::Clock;
pub use desk::{Ask, Desk, DeskBack, InviteRefused, NoAnswer};
