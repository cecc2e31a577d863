//! The rule of the product: least expected cost, and moves ahead of departures.

use super::migration::{StayReason, decide_blocking};
use super::overlapped::{self, Because, Decision, Host, OverlappedParameters, Placing, RunningRequest};
use super::placement::{assess, choose_least};
use super::{Fleet, FleetPeer, Migration, MigrationLimits, Placement, Policy, Running};
use crate::cost::{CostParameters, Terms, Work};

/// What is assumed of a planned move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationModel {
    /// The request stands still from the source's last token to the destination's first: the rule as given, `policy.md`
    /// section 1. Golden vectors pin it.
    Blocking,
    /// The destination prepares while the source goes on: the corrected rule, section 2. The product's.
    #[default]
    Overlapped,
}

/// Places by least expected cost; moves a request when that lowers its risk.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HazardAwarePolicy {
    /// What costs, by the rule as given.
    pub parameters: CostParameters,
    /// What keeps requests from moving too lightly, by the rule as given.
    pub limits: MigrationLimits,
    /// Which rule.
    pub migration: MigrationModel,
    /// The numbers of the corrected rule.
    pub overlapped: OverlappedParameters,
}

impl HazardAwarePolicy {
    /// The rule as given, with these numbers.
    pub fn blocking(parameters: CostParameters, limits: MigrationLimits) -> Self {
        Self { parameters, limits, migration: MigrationModel::Blocking, ..Self::default() }
    }
}

impl<K: Copy + PartialEq> Policy<K> for HazardAwarePolicy {
    fn name(&self) -> &'static str {
        match self.migration {
            MigrationModel::Blocking => "hazard_blocking",
            MigrationModel::Overlapped => "hazard_overlapped",
        }
    }

    fn place(&self, fleet: &Fleet<'_, K>, work: &Work) -> Placement<K> {
        match self.migration {
            MigrationModel::Blocking => choose_least(assess(fleet, work, &self.parameters), Terms::expected_s),
            MigrationModel::Overlapped => {
                let hosts: Vec<Host<'_, K>> = fleet.peers.iter().map(as_host).collect();
                overlapped::place(&Placing::new(*work), &hosts, &self.overlapped)
            }
        }
    }

    fn should_migrate(&self, fleet: &Fleet<'_, K>, running: &Running<K>) -> Migration<K> {
        match self.migration {
            MigrationModel::Blocking => decide_blocking(fleet, running, &self.parameters, &self.limits),
            // It moves only what has been prepared, and what has been is not said here.
            MigrationModel::Overlapped => Migration::unexamined(StayReason::MovesOnlyWhatIsPrepared),
        }
    }

    fn decide(&self, request: &RunningRequest<'_, K>) -> Decision<K> {
        match self.migration {
            MigrationModel::Blocking => Decision::unexamined(Because::NotAsked),
            MigrationModel::Overlapped => overlapped::decide(request, &self.overlapped),
        }
    }
}

/// A peer of which no more is known than a fleet says.
fn as_host<'a, K: Copy>(peer: &FleetPeer<'a, K>) -> Host<'a, K> {
    Host {
        wait_s: peer.load_s,
        known_remaining_s: peer.known_remaining_s,
        ..Host::new(peer.id, peer.rates, peer.hazard)
    }
}
