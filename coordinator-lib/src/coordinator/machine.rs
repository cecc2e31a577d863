//! The machine.

use super::reservations::Reservations;
use crate::policy::HazardAwarePolicy;

/// How a coordinator decides.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoordinatorConfig {
    /// The rule, with its prices.
    pub policy: HazardAwarePolicy,
}

/// Answers placements, and remembers what it placed until digests show it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coordinator {
    pub(super) config: CoordinatorConfig,
    pub(super) reservations: Reservations,
}

impl Coordinator {
    /// One that has placed nothing yet.
    pub fn new(config: CoordinatorConfig) -> Self {
        Self { config, reservations: Reservations::default() }
    }
}
