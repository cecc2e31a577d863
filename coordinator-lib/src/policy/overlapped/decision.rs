//! A decision about a request that runs, with the terms that it rests on.

use super::{CommitTest, HoldTest, NoticeTest, PrepareTest, Veto};
use crate::cost::{Preparation, Way};

/// What to do. One destination at a time: an action that names another than the standby replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<K> {
    /// Nothing; what is paused is kept.
    Stay,
    /// Begin to prepare, or go on.
    Prepare {
        /// Where.
        destination: K,
        /// How.
        way: Way,
    },
    /// Keep the standby at the heels of the source.
    Hold {
        /// The standby.
        destination: K,
    },
    /// Follow no longer, keep what is there until its memory is wanted.
    Pause {
        /// The standby.
        destination: K,
    },
    /// Stop the source and go on elsewhere.
    Commit {
        /// Where.
        destination: K,
        /// How the rest of the context gets there.
        way: Way,
    },
    /// Give up what was prepared.
    Release {
        /// Where.
        destination: K,
    },
}

/// Which test decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The policy never moves what runs, or only in ways of its own.
    NotAsked,
    /// The source's rates are unknown, so nothing can be compared.
    SourceNotMeasured,
    /// There is no other peer.
    NobodyElse,
    /// Every other peer is vetoed; the reasons are in the candidates' terms.
    AllVetoed,
    /// PREPARE says that it pays.
    PreparationPays,
    /// PREPARE says that it pays nowhere.
    NoPreparationPays,
    /// HOLD says that a warm standby pays.
    StandbyPays,
    /// HOLD says that it does not.
    StandbyDoesNotPay,
    /// COMMIT passed.
    MovePays,
    /// What was prepared is of no use any more: its peer is gone, or vetoed for good.
    StandbyUseless,
    /// The source has announced its departure.
    Notice,
    /// It has, and the request will be done before.
    DoneBeforeNotice,
    /// It has, and waiting for it is no worse than anything else.
    NoticeWithoutBetter,
}

/// The request where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StayTerms {
    /// T: mean seconds until it is done there.
    pub time_s: f64,
    /// P: the probability that the peer leaves before.
    pub leave_probability: f64,
    /// L if nothing were prepared.
    pub cold_loss_s: f64,
    /// L as things stand.
    pub loss_s: f64,
}

impl StayTerms {
    /// E = T + L.
    pub fn expected_s(&self) -> f64 {
        self.time_s + self.loss_s
    }
}

/// One candidate's part in a decision. Tests that were not made, because something is missing for them, are none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CandidateTerms<K> {
    /// The peer.
    pub host: K,
    /// Why it is no destination; none where it could be.
    pub veto: Option<Veto>,
    /// W, S, work and bytes of preparing it from where it stands.
    pub preparation: Option<Preparation>,
    /// L after a move there.
    pub loss_s: Option<f64>,
    /// PREPARE.
    pub prepare: Option<PrepareTest>,
    /// COMMIT; of the standby.
    pub commit: Option<CommitTest>,
    /// HOLD; of the standby.
    pub hold: Option<HoldTest>,
    /// NOTICE; where the source has announced its departure.
    pub notice: Option<NoticeTest>,
}

/// What to do with a request that runs, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<K> {
    /// What to do.
    pub action: Action<K>,
    /// Which test said so.
    pub because: Because,
    /// The peer to fall back on if the source leaves unannounced; none where there is nobody.
    pub fallback: Option<K>,
    /// The request where it is; none where its rates are unknown.
    pub stay: Option<StayTerms>,
    /// Every candidate, in the caller's order.
    pub candidates: Vec<CandidateTerms<K>>,
}

impl<K: Copy + PartialEq> Decision<K> {
    /// The decision to do nothing of a policy that did not look.
    pub fn unexamined(because: Because) -> Self {
        Self { action: Action::Stay, because, fallback: None, stay: None, candidates: Vec::new() }
    }

    /// The terms of the peer that the action names.
    pub fn chosen(&self) -> Option<&CandidateTerms<K>> {
        let destination = self.action.destination()?;
        self.candidates.iter().find(|terms| terms.host == destination)
    }
}

impl<K: Copy> Action<K> {
    /// The peer that it names.
    pub fn destination(&self) -> Option<K> {
        match *self {
            Self::Stay => None,
            Self::Prepare { destination, .. }
            | Self::Hold { destination }
            | Self::Pause { destination }
            | Self::Commit { destination, .. }
            | Self::Release { destination } => Some(destination),
        }
    }
}
