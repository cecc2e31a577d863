//! Which policy, and which of its parts.

use core::str::FromStr;

use super::policy::Asked;
use crate::cost::CostParameters;
use crate::policy::overlapped::OverlappedParameters;
use crate::policy::{
    HazardAwarePolicy, LoadAware, MigrationLimits, OracleFull, OraclePlacement, Random, ReactiveFastest,
};
use crate::sim::fleet::UnknownName;

/// The policies that can be compared: `policy.md` section 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// Any peer.
    Random,
    /// The peer that would be done first if nobody left.
    ReactiveFastest,
    /// The peer with the least load.
    LoadAware,
    /// The published rule.
    HazardBlocking,
    /// The corrected rule: the product's.
    HazardOverlapped,
    /// Knows departures and lengths, and places by them.
    OraclePlacement,
    /// Knows them, prepares for them and moves ahead of them.
    OracleFull,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Random,
        Self::ReactiveFastest,
        Self::LoadAware,
        Self::HazardBlocking,
        Self::HazardOverlapped,
        Self::OraclePlacement,
        Self::OracleFull,
    ];

    /// What results call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::ReactiveFastest => "reactive_fastest",
            Self::LoadAware => "load_aware",
            Self::HazardBlocking => "hazard_blocking",
            Self::HazardOverlapped => "hazard_overlapped",
            Self::OraclePlacement => "oracle_placement",
            Self::OracleFull => "oracle_full",
        }
    }

    /// Whether it knows what nobody can.
    pub(super) fn is_oracle(self) -> bool {
        matches!(self, Self::OraclePlacement | Self::OracleFull)
    }

    /// Whether it looks at how likely peers are to leave.
    pub(super) fn reads_hazards(self) -> bool {
        matches!(self, Self::HazardBlocking | Self::HazardOverlapped)
    }

    pub(super) fn policy(self, parts: &PolicyParts, seed: u64) -> Box<dyn Asked> {
        // Baselines choose by time alone: one cell of their losses is enough.
        let parameters = CostParameters { cells: 1, ..CostParameters::default() };
        let overlapped = parts.overlapped;
        match self {
            Self::Random => Box::new(Random { parameters, seed }),
            Self::ReactiveFastest => Box::new(ReactiveFastest { parameters }),
            Self::LoadAware => Box::new(LoadAware { parameters }),
            Self::HazardBlocking => {
                Box::new(HazardAwarePolicy::blocking(CostParameters::default(), MigrationLimits::default()))
            }
            Self::HazardOverlapped => Box::new(HazardAwarePolicy { overlapped, ..HazardAwarePolicy::default() }),
            Self::OraclePlacement => Box::new(OraclePlacement { parameters }),
            Self::OracleFull => Box::new(OracleFull { placement: OraclePlacement { parameters }, overlapped }),
        }
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownName(name.to_owned(), "policy", known()))
    }
}

/// A part of the corrected rule that can be left out, to see what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Preparations. Without them nothing is held or committed either, but for what is announced.
    Prepare,
    /// Moves ahead of a departure.
    Commit,
    /// Requests that only wait are placed again.
    Requeue,
    /// The length of what is still to come as a distribution that is learnt; without it, what the client said, less what is
    /// done.
    Residual,
    /// The hazard in placement.
    PlacementHazard,
    /// What a newcomer takes from those that run.
    Slowdown,
    /// Announced departures: without it nobody acts before they happen.
    Notice,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Prepare,
        Self::Commit,
        Self::Requeue,
        Self::Residual,
        Self::PlacementHazard,
        Self::Slowdown,
        Self::Notice,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Commit => "commit",
            Self::Requeue => "requeue",
            Self::Residual => "residual",
            Self::PlacementHazard => "placement-hazard",
            Self::Slowdown => "slowdown",
            Self::Notice => "notice",
        }
    }
}

impl FromStr for Part {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|part| part.name() == name)
            .ok_or_else(|| UnknownName(name.to_owned(), "part", known()))
    }
}

/// How the corrected rule is set, and which of its parts are left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyParts {
    /// Its numbers.
    pub overlapped: OverlappedParameters,
    /// What it does without.
    pub without: Vec<Part>,
}

impl PolicyParts {
    /// Whether a part is in use.
    pub fn has(&self, part: Part) -> bool {
        !self.without.contains(&part)
    }
}
