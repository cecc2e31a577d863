//! What the rules are about, as this machine shows it: thin readers of /proc and /sys, each of which may know nothing.
//!
//! ```text
//! /sys, /proc, addresses --readers, every 2 or 5 s--> Conditions --> rules::decide (pure)
//! ```
//!
//! A reader that cannot read says so by `None`, and each rule says what that means. Which files are read is in [`Roots`], so
//! that tests build their own.

mod addresses;
mod courtesy;
mod eyes;
mod memory;
mod power;
mod processor;
mod programs;
mod roots;
mod thermal;

pub use courtesy::{Courtesy, courtesy};
pub use eyes::Eyes;
pub use memory::{Memory, engine_bytes, memory};
pub use power::Power;
pub use roots::Roots;
pub use thermal::Heat;

/// What was seen. Whatever is `None` nobody knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conditions {
    /// What feeds the machine. Not known counts as mains: a desktop has nothing that says so.
    pub power: Option<Power>,
    /// The sensor that is nearest to its limit. Not known counts as cool.
    pub heat: Option<Heat>,
    /// What other programs use of all cores, in percent, averaged over about 10 s. Not known counts as nothing.
    pub others_cpu_percent: Option<f32>,
    /// The memory. Not known counts as free.
    pub memory: Option<Memory>,
    /// Which of the exclusive programs run.
    pub exclusive: Vec<String>,
    /// Whether the network is metered. Not known counts as not metered.
    pub metered: Option<bool>,
    /// Whether the machine has an address that others could reach.
    pub has_address: Option<bool>,
}
