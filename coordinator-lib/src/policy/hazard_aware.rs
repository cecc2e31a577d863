//! The rule of the product: least expected cost, and moves ahead of departures.

use super::migration::decide_blocking;
use super::placement::{assess, choose_least};
use super::{Fleet, Migration, MigrationLimits, Placement, Policy, Running};
use crate::cost::{CostParameters, Terms, Work};

/// What is assumed of a planned move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationModel {
    /// The request stands still from the source's last token to the destination's first: `policy.md` section 1.
    #[default]
    Blocking,
}

/// Places by least E = T + L; moves a request when that lowers its risk by more than the hysteresis.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HazardAwarePolicy {
    /// What costs.
    pub parameters: CostParameters,
    /// What keeps requests from moving too lightly.
    pub limits: MigrationLimits,
    /// What is assumed of a move.
    pub migration: MigrationModel,
}

impl<K: Copy + PartialEq> Policy<K> for HazardAwarePolicy {
    fn name(&self) -> &'static str {
        match self.migration {
            MigrationModel::Blocking => "hazard_blocking",
        }
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        choose_least(assess(fleet, work, &self.parameters), Terms::expected_s)
    }

    fn should_migrate(&self, fleet: &Fleet<'_, K>, running: &Running<K>) -> Migration<K> {
        match self.migration {
            MigrationModel::Blocking => decide_blocking(fleet, running, &self.parameters, &self.limits),
        }
    }
}
