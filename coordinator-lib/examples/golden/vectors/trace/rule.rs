//! A policy of this crate under the name that traces give it, and what it needs to be asked.

use idlewild_coordinator::cost::{CostParameters, Work, service_s};
use idlewild_coordinator::policy::{
    HazardAwarePolicy, MigrationLimits, OraclePlacement, Policy, ReactiveFastest, Running,
};

use super::node::Node;

/// One of the three policies that traces have summaries of.
pub(super) struct Rule {
    name: &'static str,
    policy: Box<dyn Policy<usize>>,
    /// It asks the hazard log, and moves what runs. The others look at service and load alone.
    pub(super) is_hazard_aware: bool,
    limits: MigrationLimits,
}

impl Rule {
    pub(super) fn fastest() -> Self {
        Self::baseline("reactive_fastest", Box::new(ReactiveFastest::default()))
    }

    pub(super) fn oracle() -> Self {
        Self::baseline("oracle", Box::new(OraclePlacement::default()))
    }

    fn baseline(name: &'static str, policy: Box<dyn Policy<usize>>) -> Self {
        Self { name, policy, is_hazard_aware: false, limits: MigrationLimits::default() }
    }

    pub(super) fn hazard_aware(hysteresis_s: f64) -> Self {
        let limits = MigrationLimits { hysteresis_s, ..MigrationLimits::default() };
        let policy = HazardAwarePolicy::blocking(CostParameters::default(), limits);
        Self { name: "hazard_aware", policy: Box::new(policy), is_hazard_aware: true, limits }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn policy(&self) -> &dyn Policy<usize> {
        &*self.policy
    }

    /// What is added to every load. The reference's baselines compare service + load as it is; this crate's take a
    /// load below 0 for none. A common shift that leaves none below 0 changes no comparison.
    pub(super) fn load_shift_s(&self, loads_s: &[f64]) -> f64 {
        if self.is_hazard_aware { 0.0 } else { -loads_s.iter().copied().fold(0.0, f64::min) }
    }

    /// Whether placing `work` asks the log anything: a node that cannot take it, or would take no time, is not asked
    /// about. The log is fitted by the first question after it went stale, and it matters when that is.
    pub(super) fn asks_to_place<'a>(&self, mut up: impl Iterator<Item = (&'a Node, f64)>, work: &Work) -> bool {
        let is_asked = |(node, load_s): (&Node, f64)| {
            node.rates.has_room_for(work.needed_tokens()) && load_s.max(0.0) + service_s(&node.rates, work) > 0.0
        };
        self.is_hazard_aware && up.any(is_asked)
    }

    /// Whether a guard keeps the request in its place before anything is asked.
    pub(super) fn is_guarded(&self, source: &Node, running: &Running<usize>) -> bool {
        running.hops >= self.limits.max_hops || service_s(&source.rates, &running.work) < self.limits.min_remaining_s
    }
}
