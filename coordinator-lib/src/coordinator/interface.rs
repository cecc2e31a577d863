//! What goes into the machine, what comes out of it, and how it decides.

use core::time::Duration;

use idlewild_protocol::{
    DepartureCause, PeerId, PlaceReply, PlaceRequest, Plan, PlanRefused, RequestId, RequestReport, Term,
};

use super::ledger::ReportFault;
use crate::policy::HazardAwarePolicy;

/// How a coordinator decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoordinatorConfig {
    /// The rule, with its prices.
    pub policy: HazardAwarePolicy,
    /// Time between two looks at a running request.
    pub check_interval: Duration,
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self { policy: HazardAwarePolicy::default(), check_interval: Duration::from_secs(5) }
    }
}

/// What happened. Digests are the [`View`](crate::view::View)'s, which every call is given.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// We lead, by this election.
    Leading {
        /// Its number.
        term: Term,
    },
    /// We do not lead, by this election.
    Following {
        /// Its number.
        term: Term,
    },
    /// An origin asks where a request should run.
    Place {
        /// Who asks.
        origin: PeerId,
        /// What.
        request: PlaceRequest,
    },
    /// An origin says how a request of its own is doing.
    Report {
        /// Who says it.
        origin: PeerId,
        /// What.
        report: RequestReport,
    },
    /// An origin does not follow a plan.
    Refused {
        /// Who says it.
        origin: PeerId,
        /// Which, and why.
        refused: PlanRefused,
    },
    /// A request has ended.
    Ended {
        /// Who says it.
        origin: PeerId,
        /// Which.
        request: RequestId,
    },
    /// The view has taken in another digest of the peer, or its departure.
    PeerChanged {
        /// Which.
        peer: PeerId,
    },
    /// A peer has said that it will stop.
    Notice {
        /// Which.
        peer: PeerId,
        /// Why.
        cause: DepartureCause,
        /// In how long.
        notice: Duration,
    },
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Answer the origin.
    Answer {
        /// Whom.
        origin: PeerId,
        /// What.
        reply: PlaceReply,
    },
    /// Propose a plan to the origin.
    Propose {
        /// To whom.
        origin: PeerId,
        /// What.
        plan: Plan,
    },
    /// The peer said something that it should not have; it was ignored.
    PeerFault {
        /// Who.
        peer: PeerId,
        /// What.
        fault: ReportFault,
    },
}
