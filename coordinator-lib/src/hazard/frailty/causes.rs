//! Of what a departure would be: the cost differs by cause, since some announce themselves.

use idlewild_protocol::DepartureCause;
use serde::{Deserialize, Serialize};

/// The protocol's causes, in the order of its numbers.
pub const CAUSES: [DepartureCause; 8] = [
    DepartureCause::OwnerReturned,
    DepartureCause::Sleep,
    DepartureCause::Shutdown,
    DepartureCause::Battery,
    DepartureCause::Rule,
    DepartureCause::Network,
    DepartureCause::Crash,
    DepartureCause::Unknown,
];

/// Departures by cause, undecayed: causes are a habit of machines, not of weeks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct CauseCounts([f64; CAUSES.len()]);

impl CauseCounts {
    pub(super) fn count(&mut self, cause: DepartureCause) {
        self.0[cause as usize] += 1.0;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The shares of a peer with these counts in a fleet with `fleet`'s, which weighs as `strength` departures.
    pub(super) fn shares(&self, fleet: &CauseShares, strength: f64) -> CauseShares {
        let total = strength + self.total();
        let mut shares = [0.0; CAUSES.len()];
        for ((share, own), fleets) in shares.iter_mut().zip(self.0).zip(fleet.0) {
            *share = (strength * fleets + own) / total;
        }
        CauseShares(shares)
    }
}

/// Which part of a hazard is due to which cause: each cause's own hazard is the whole one times its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CauseShares([f64; CAUSES.len()]);

impl CauseShares {
    /// Before anything was seen every cause is as likely.
    pub(super) const EQUAL: Self = Self([1.0 / CAUSES.len() as f64; CAUSES.len()]);

    /// The share of `cause`, in [0, 1]; all of them make 1.
    pub fn of(&self, cause: DepartureCause) -> f64 {
        self.0[cause as usize]
    }
}
