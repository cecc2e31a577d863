//! What the coordinator proposes: values that nothing changes once they are made.
//!
//! A plan names the assignment that it was made for and its own place among all plans. Whoever carries it out looks at
//! both ([`Plan::staleness`]) and drops what is stale, so that plans may be lost, late, doubled, or of two coordinators at
//! once: the request is moved by one plan or by none.

use idlewild_protocol::{Epoch, PeerId, PeerTerms, RequestId};

use crate::cost::Way;
use crate::generation::{Generation, Staleness};
use crate::policy::Migration;
use crate::policy::overlapped::Decision;

/// A proposal to the origin of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its place among all plans.
    pub generation: Generation,
    /// Which request.
    pub request: RequestId,
    /// The assignment that it was made for.
    pub epoch: Epoch,
    /// What to do.
    pub action: Action,
    /// Why.
    pub explain: Explain,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Let the destination get the context while the source goes on.
    Prepare {
        /// Which peer.
        destination: PeerId,
        /// How the context gets there.
        way: Way,
    },
    /// Let the destination keep up.
    Hold {
        /// Which peer.
        destination: PeerId,
    },
    /// Let the destination keep what it has, and send it nothing more.
    Pause {
        /// Which peer.
        destination: PeerId,
    },
    /// Let the destination forget the context.
    Release {
        /// Which peer.
        destination: PeerId,
    },
    /// Stop the source and go on at the destination.
    Commit {
        /// Which peer.
        destination: PeerId,
        /// How what it lacks gets there.
        way: Way,
    },
    /// Begin again from the token log: the request is only queued, or nobody has it.
    Replace {
        /// Which peer runs it.
        worker: PeerId,
        /// Who would take over if that one left.
        fallback: Option<PeerId>,
    },
}

impl Action {
    /// The peer that is to take on work; none where work ends.
    pub fn destination(&self) -> Option<PeerId> {
        match *self {
            Self::Prepare { destination, .. } | Self::Hold { destination } | Self::Commit { destination, .. } => {
                Some(destination)
            }
            Self::Replace { worker, .. } => Some(worker),
            Self::Pause { .. } | Self::Release { .. } => None,
        }
    }
}

/// Why a request is placed again, or a destination given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// The source has said that it will leave.
    Notice,
    /// Nobody has it: its worker has left.
    Orphaned,
    /// It waits, and would be done sooner elsewhere.
    Queued,
    /// The standby cannot take it any more.
    StandbyUnfit,
}

/// Why a plan is what it is: the terms of the chosen and of the rejected, and the test that decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Explain {
    /// The request is placed again, or a standby given up.
    Placement {
        /// What decided.
        test: Test,
        /// What the rest of the request costs where it is, if it is anywhere.
        stay: Option<PeerTerms>,
        /// What it costs elsewhere, best first.
        weighed: Vec<PeerTerms>,
    },
    /// The corrected rule's tests over a running request.
    Tests(Box<Decision<PeerId>>),
    /// The rule as given over a running request.
    Migration(Box<Migration<PeerId>>),
}

impl Plan {
    /// Whether a request may not follow the plan, whose live assignment is `live` and which has followed plans up to
    /// `followed`.
    pub fn staleness(&self, live: Epoch, followed: Option<Generation>) -> Option<Staleness> {
        self.generation.staleness(self.epoch, Some(live), followed)
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::Term;

    use super::*;

    fn check(plan: (u64, u64, u32), followed: Option<(u64, u64)>, expected: Option<Staleness>) {
        let generation = |(term, number)| Generation { term: Term(term), number };
        let (term, number, epoch) = plan;
        let plan = Plan {
            generation: generation((term, number)),
            request: RequestId([1; 16]),
            epoch: Epoch(epoch),
            action: Action::Release { destination: PeerId([2; 32]) },
            explain: Explain::Placement { test: Test::StandbyUnfit, stay: None, weighed: Vec::new() },
        };
        assert_eq!(plan.staleness(Epoch(5), followed.map(generation)), expected, "{plan:?} after {followed:?}");
    }

    #[test]
    fn a_plan_is_followed_once_and_only_for_the_assignment_that_it_was_made_for() {
        check((1, 1, 5), None, None);
        check((1, 1, 4), None, Some(Staleness::OtherEpoch));
        check((1, 1, 6), None, Some(Staleness::OtherEpoch));
        check((1, 2, 5), Some((1, 1)), None);
        check((1, 1, 5), Some((1, 1)), Some(Staleness::Overtaken));
        check((2, 1, 5), Some((1, 9)), None);
        check((1, 9, 5), Some((2, 1)), Some(Staleness::Overtaken));
    }
}
