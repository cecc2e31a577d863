//! What a coordinator proposes for a running request, and why the origin may refuse it.
//!
//! Proposals may be lost, late, doubled, or of two coordinators at once. Each names the assignment that it was made for and
//! its own place among all, so that the origin follows one or none of them.

use idlewild_protocol::{Epoch, PeerId, PeerTerms};

use crate::generation::{Generation, Staleness};

/// A proposal to the origin of a request. Made by a coordinator; the shell has seen to it that it is of this request.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Its place among all.
    pub generation: Generation,
    /// The assignment that it was made for.
    pub epoch: Epoch,
    /// What to do.
    pub step: Step,
    /// The figures that decided, the destination's first: for the story of the request.
    pub terms: Vec<PeerTerms>,
}

impl Proposal {
    /// Seconds before `peer` would start, by the terms; 0 where they do not say.
    pub(super) fn wait_s(&self, peer: PeerId) -> f64 {
        self.terms.iter().find(|terms| terms.peer == peer).map_or(0.0, |terms| terms.wait_s)
    }
}

/// One step of a planned move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Let the destination get the context while the source goes on.
    Prepare {
        /// Which peer.
        destination: PeerId,
        /// How the context gets there.
        way: Way,
    },
    /// Let the destination keep up with the source.
    Hold {
        /// Which peer.
        destination: PeerId,
    },
    /// Let the destination keep what it has, and send it nothing more until it is wanted.
    Pause {
        /// Which peer.
        destination: PeerId,
    },
    /// Stop the source and go on at the destination.
    Commit {
        /// Which peer.
        destination: PeerId,
    },
    /// Withdraw a commit that has not happened yet; the destination stays what it was before.
    Abort {
        /// Which peer.
        destination: PeerId,
    },
    /// Let the destination forget the context; withdraws a commit too.
    Release {
        /// Which peer.
        destination: PeerId,
    },
}

/// How a context gets to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// The destination prefills the ids.
    Ids,
    /// It pulls the KV cache from the source, all of it or the part that it does not prefill itself.
    Pull,
}

/// Why a proposal is not followed. The request goes on as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The request has moved on since, or never was where the proposal takes it to be.
    #[error("made for another assignment")]
    OtherEpoch,
    /// A later proposal (or this one) has been heard.
    #[error("overtaken by a later proposal")]
    Overtaken,
    /// The prompt's ids are not known yet: there is no context to prepare.
    #[error("the worker has not read the prompt yet")]
    NotAccepted,
    /// The worker has said goodbye: the next one is chosen already.
    #[error("the worker is leaving")]
    SourceLeaving,
    /// The destination runs the request, or would fail it again.
    #[error("the destination cannot take it")]
    RuledOut,
    /// It is the present destination already.
    #[error("it prepares already")]
    PreparesAlready,
    /// It is not the present destination.
    #[error("it prepares nothing")]
    PreparesNothing,
    /// The source has been told to stop for it, or has not.
    #[error("the move is not at that step")]
    OtherStep,
    /// The destination lags too far behind: the client would see a pause.
    #[error("the destination is not ready")]
    NotReady,
    /// The answer ends before the source could stop.
    #[error("the answer is all but complete")]
    NearlyDone,
    /// The request has been prepared or moved as often as may be.
    #[error("moved too often")]
    TooOften,
}

impl From<Staleness> for Refusal {
    fn from(staleness: Staleness) -> Self {
        match staleness {
            Staleness::OtherEpoch => Self::OtherEpoch,
            Staleness::Overtaken => Self::Overtaken,
        }
    }
}
