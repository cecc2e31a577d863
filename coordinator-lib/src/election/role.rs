//! What a peer is in the present election.

use std::collections::BTreeSet;

use idlewild_protocol::{PeerId, Term};

use crate::Now;
use crate::election::Timing;

/// Exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// No leader is known. Stands at this time; never where it has no live view yet, or is leaving.
    Looking { stand_at: Option<Now> },
    /// Nobody else is live: it coordinates for itself, untold. Others have appeared where it is to stand.
    Alone { stand_at: Option<Now> },
    /// It has asked for votes.
    Standing(Candidacy),
    /// It hears a leader.
    Following { seat: Seat, heard: Now },
    /// It was elected.
    Leading { term: Term, next_beat: Now },
}

/// Who leads, and in which term. Greater wins; of two leaders of one term (see `rounds.rs`) the greater id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Seat {
    pub(super) term: Term,
    pub(super) leader: PeerId,
}

/// A candidacy of our own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Candidacy {
    pub(super) term: Term,
    pub(super) votes: BTreeSet<PeerId>,
    pub(super) refusals: BTreeSet<PeerId>,
    /// When it has failed if no majority has come.
    pub(super) until: Now,
}

impl Role {
    pub(super) fn timeout(&self, timing: &Timing) -> Option<Now> {
        match self {
            Self::Looking { stand_at } | Self::Alone { stand_at } => *stand_at,
            Self::Standing(candidacy) => Some(candidacy.until),
            Self::Following { heard, .. } => Some(*heard + timing.patience),
            Self::Leading { next_beat, .. } => Some(*next_beat),
        }
    }
}
