//! How many jobs each origin has here: whoever floods this peer is turned away, and takes no place of another's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idlewild_protocol::PeerId;

use super::Part;

/// Jobs of one origin that may wait here besides as many as run at once; the same of its standbys. Sixteen of either may wait
/// in the engine: some places are left to others.
const WAITING_MAX: u32 = 12;

/// Jobs of one origin in any case: the engine has places for 64 sequences.
const JOBS_MAX: u32 = 24;

/// Jobs of one origin, or its standbys, on a peer that runs so many at once.
fn most(slots: u16) -> u32 {
    u32::from(slots).saturating_add(WAITING_MAX).min(JOBS_MAX)
}

/// Whose jobs, and of which kind.
type Whose = (PeerId, Part);

/// The count. Cheap to clone; all clones are one. Bounded by the jobs that exist.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares {
    jobs: Arc<Mutex<BTreeMap<Whose, u32>>>,
}

/// A job's place. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    shares: Shares,
    whose: Whose,
}

impl Shares {
    /// Whatever a panic left is still a count.
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<Whose, u32>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more job of this origin's; none where it has as many as may be.
    pub(super) fn take(&self, whose: Whose, slots: u16) -> Option<Place> {
        let mut jobs = self.jobs();
        let count = jobs.get(&whose).copied().unwrap_or(0);
        if count >= most(slots) {
            return None;
        }
        jobs.insert(whose, count + 1);
        Some(Place { shares: self.clone(), whose })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut jobs = self.shares.jobs();
        if let Some(count) = jobs.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                jobs.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_origin_fills_its_own_share_only_and_gets_it_back() {
        let shares = Shares::default();
        let (flooder, other) = ((PeerId([1; 32]), Part::Worker), (PeerId([2; 32]), Part::Worker));
        let mut taken: Vec<Place> = std::iter::from_fn(|| shares.take(flooder, 2)).take(100).collect();
        assert_eq!(taken.len(), 14);
        assert!(shares.take((flooder.0, Part::Standby), 2).is_some());
        assert!(shares.take(other, 2).is_some());
        taken.pop();
        assert!(shares.take(flooder, 2).is_some());
        taken.clear();
        assert!(shares.jobs().is_empty(), "whoever has no job is forgotten");
        assert_eq!(most(u16::MAX), JOBS_MAX);
    }
}
