//! The order of plans: as a coordinator numbers them, and as a request follows them.

use idlewild_protocol::{Epoch, Term};

/// The place of a plan among all: of a later term, or later in the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation {
    /// The coordinator's term.
    pub term: Term,
    /// Rises with every plan of the term.
    pub number: u64,
}

/// Why a plan is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Staleness {
    /// The request has moved on since, or never was where the plan takes it to be.
    #[error("made for another assignment")]
    OtherEpoch,
    /// A later plan has been seen.
    #[error("overtaken by a later plan")]
    Overtaken,
}

impl Generation {
    /// Whether a plan of this generation, made for `epoch`, may not be followed by a request whose live assignment is
    /// `live` and which has followed plans up to `followed`.
    pub(crate) fn staleness(self, epoch: Epoch, live: Option<Epoch>, followed: Option<Self>) -> Option<Staleness> {
        if live != Some(epoch) {
            return Some(Staleness::OtherEpoch);
        }
        followed.is_some_and(|followed| self <= followed).then_some(Staleness::Overtaken)
    }
}
