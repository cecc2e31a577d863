//! Plans: what a coordinator proposes for a request that has a worker, why, and what its origin answers.
//!
//! ```text
//! origin --Report------> coordinator      where the request is, how much is still to come, who stands by
//! origin <--Plan-------- coordinator      the next step of a move, with the figures that decided
//! origin --PlanRefused-> coordinator      not followed: so that it is not said again at once
//! origin --Ended-------> coordinator
//! ```
//!
//! A plan may be lost, late, doubled, or of two coordinators at once. It names the assignment that it was made for and its
//! own place among all plans, so that the origin follows one of them or none. Invariant: whatever is planned, the origin
//! alone moves its request.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{Epoch, PeerId, PeerTerms, PullPart, RequestId, Term};

/// Destinations whose terms a plan explains: the chosen, and the best of the rejected.
pub const MAX_WEIGHED_PER_PLAN: usize = 8;

/// The place of a plan among all: of a later term, or later in the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize)]
pub struct Generation {
    /// The coordinator's term.
    pub term: Term,
    /// Rises with every plan of the term.
    pub number: u64,
}

/// A proposal to the origin of a request.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Plan {
    /// Its place among all plans.
    pub generation: Generation,
    /// Which request.
    pub request: RequestId,
    /// The assignment that it was made for.
    pub epoch: Epoch,
    /// What to do.
    pub step: PlanStep,
    /// Why.
    pub terms: PlanTerms,
}

impl Plan {
    pub(crate) fn is_valid(&self) -> bool {
        self.terms.is_valid()
    }
}

/// What to do with a request: one step of a planned move, or another worker for one that only waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStep {
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
        /// How what it lacks gets there.
        way: Way,
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
    /// Begin again from the token log at another worker: the request only waits where it is, or nobody has it.
    Replace {
        /// Which peer runs it.
        worker: PeerId,
        /// Who would take over if that one left.
        fallback: Option<PeerId>,
    },
}

impl PlanStep {
    /// The peer that it names.
    pub fn peer(&self) -> PeerId {
        match *self {
            Self::Prepare { destination, .. }
            | Self::Hold { destination }
            | Self::Pause { destination }
            | Self::Commit { destination, .. }
            | Self::Abort { destination }
            | Self::Release { destination } => destination,
            Self::Replace { worker, .. } => worker,
        }
    }

    /// The peer that is to take on work, or to go on with it; none where work ends.
    pub fn taker(&self) -> Option<PeerId> {
        match self {
            Self::Prepare { .. } | Self::Hold { .. } | Self::Commit { .. } | Self::Replace { .. } => Some(self.peer()),
            Self::Pause { .. } | Self::Abort { .. } | Self::Release { .. } => None,
        }
    }

    /// How the context travels, where the step says so.
    pub fn way(&self) -> Option<Way> {
        match *self {
            Self::Prepare { way, .. } | Self::Commit { way, .. } => Some(way),
            Self::Hold { .. }
            | Self::Pause { .. }
            | Self::Abort { .. }
            | Self::Release { .. }
            | Self::Replace { .. } => None,
        }
    }
}

/// How a context gets to another peer while it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Ids are sent; the destination prefills, in rounds, what has come meanwhile too.
    Ids,
    /// The KV cache is sent, then every new token's.
    PreCopy,
    /// The destination prefills from the front while the KV of the rest, and of every new token, streams in.
    Hybrid,
    /// The same with a source that decodes no more: its owner is back, and its KV is still in memory.
    StoppedSplit,
}

impl Way {
    /// How much of the KV cache the destination pulls; none: it makes it all from the ids.
    pub fn part(self) -> Option<PullPart> {
        match self {
            Self::Ids => None,
            Self::PreCopy => Some(PullPart::Whole),
            Self::Hybrid | Self::StoppedSplit => Some(PullPart::Rest),
        }
    }
}

/// Why a plan is what it is: the test that decided, and the figures for the chosen and the rejected.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanTerms {
    /// Which test.
    pub reason: PlanReason,
    /// What the rest of the request costs where it is (T, L, P), if it is anywhere and that is known.
    pub stay: Option<PeerTerms>,
    /// What it would cost elsewhere: the peer that the step names first (at most [`MAX_WEIGHED_PER_PLAN`]).
    pub weighed: Vec<MoveTerms>,
}

impl PlanTerms {
    /// Those of a step that nothing was weighed for.
    pub fn unweighed(reason: PlanReason) -> Self {
        Self { reason, stay: None, weighed: Vec::new() }
    }

    /// Those of `peer`, where it was weighed.
    pub fn of(&self, peer: PeerId) -> Option<&MoveTerms> {
        self.weighed.iter().find(|weighed| weighed.terms.peer == peer)
    }

    fn is_valid(&self) -> bool {
        self.weighed.len() <= MAX_WEIGHED_PER_PLAN
            && self.stay.as_ref().is_none_or(PeerTerms::is_finite)
            && self.weighed.iter().all(MoveTerms::is_valid)
    }
}

/// What becomes of the request if it goes to one peer. Numbers are finite.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct MoveTerms {
    /// T, L and P there, from then on.
    pub terms: PeerTerms,
    /// Why it is no destination; none where it could be.
    pub veto: Option<Veto>,
    /// What it takes to get ready there; none where nothing is prepared or it cannot be.
    pub preparation: Option<PreparationTerms>,
    /// Both sides of the test that decided, where it was made for this peer: it passes where the first is greater. Seconds;
    /// of HOLD, tokens.
    pub test: Option<(f64, f64)>,
}

impl MoveTerms {
    fn is_valid(&self) -> bool {
        self.terms.is_finite()
            && self.preparation.as_ref().is_none_or(PreparationTerms::is_finite)
            && self.test.is_none_or(|(is, must)| is.is_finite() && must.is_finite())
    }
}

/// What a preparation takes, as expected when it was planned.
#[derive(Debug, Clone, Copy, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct PreparationTerms {
    /// How the context travels.
    pub way: Way,
    /// W: seconds until the destination keeps up.
    pub ready_s: f64,
    /// S: seconds of stall at the hand-off.
    pub stall_s: f64,
    /// K: seconds of the destination's work.
    pub work_s: f64,
    /// Bytes over the link.
    pub bytes: u64,
}

impl PreparationTerms {
    fn is_finite(&self) -> bool {
        [self.ready_s, self.stall_s, self.work_s].iter().all(|x| x.is_finite())
    }
}

/// The test that decided.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum PlanReason {
    /// PREPARE passes.
    #[error("what it saves if the worker leaves is more than it costs")]
    PreparationPays,
    /// PREPARE does not pass any more.
    #[error("what it saves if the worker leaves is less than it costs")]
    NoPreparationPays,
    /// HOLD passes.
    #[error("the worker is likely enough to leave for a standby that keeps up")]
    StandbyPays,
    /// HOLD does not pass.
    #[error("the worker is too likely to stay for a standby that keeps up")]
    StandbyDoesNotPay,
    /// COMMIT passes.
    #[error("less is expected to be lost there, and the answer is not done later")]
    MovePays,
    /// The standby could not take over any more.
    #[error("it could not take over any more")]
    StandbyUseless,
    /// NOTICE: the worker has said that it will leave.
    #[error("the worker has said that it will leave")]
    Notice,
    /// Nobody has the request: its worker has left.
    #[error("nobody has it any more")]
    Orphaned,
    /// It waits, and would be done sooner elsewhere.
    #[error("it waits, and would be done sooner there")]
    Queued,
    /// By the rule as given: the risk falls by more than the hysteresis, and the time does not rise by as much.
    #[error("the risk falls by more than the move costs")]
    RiskFalls,
    /// A person at the origin asked for it.
    #[error("somebody at the request's own machine asked for it")]
    Asked,
}

/// Why a peer is no destination for a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Veto {
    /// There is no way to it.
    #[error("there is no way to it")]
    NoPath,
    /// Its rates were never measured.
    #[error("its rates were never measured")]
    NotMeasured,
    /// Its KV memory is too short for what the request may come to.
    #[error("it has no room for what the request may come to")]
    NoRoom,
    /// Neither prefill nor link keeps up with the source.
    #[error("neither its prefill nor the link keeps up with the worker")]
    CannotKeepUp,
    /// Others wait there.
    #[error("others wait there")]
    Queued,
    /// It has too little time left over.
    #[error("it is too busy")]
    TooBusy,
    /// The request has made as many planned moves as it may.
    #[error("the request has moved as often as it may")]
    HopsSpent,
    /// The request will probably be done before it could be ready.
    #[error("the request will probably be done before")]
    FinishesFirst,
}

/// Tells a coordinator that a plan of its is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct PlanRefused {
    /// Which request.
    pub request: RequestId,
    /// Which plan.
    pub generation: Generation,
    /// Why.
    pub why: PlanRefusal,
    /// The latest plan that the request has heard: what is to be followed must be later.
    pub heard: Option<Generation>,
}

/// Why a plan is not followed. The request goes on as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum PlanRefusal {
    /// The request has moved on since, or never was where the plan takes it to be.
    #[error("made for another assignment")]
    OtherEpoch,
    /// A later plan (or this one) has been heard.
    #[error("overtaken by a later plan")]
    Overtaken,
    /// The prompt's ids are not known yet: there is no context to prepare.
    #[error("the worker has not read the prompt yet")]
    NotAccepted,
    /// The worker has said goodbye: the next one is chosen already.
    #[error("the worker is leaving")]
    SourceLeaving,
    /// The peer runs the request, or would fail it again.
    #[error("that peer runs it already, or has failed it for good")]
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
    /// The request has been prepared, moved or placed again as often as may be.
    #[error("moved too often")]
    TooOften,
    /// It waits no longer: to begin again elsewhere would throw away what the worker has done.
    #[error("the worker has begun it")]
    Begun,
    /// A person at the origin is moving it.
    #[error("somebody at the request's own machine is moving it")]
    Overridden,
}
