//! The requests that origins report, and when each is looked at next.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use idlewild_protocol::{Epoch, Generation, PeerId, PlanRefusal, PlanRefused, PlanStep, RequestId, RequestReport};

use crate::Now;

/// Requests that are followed. One that finds no room runs on unwatched, as it would without a coordinator.
pub const REQUESTS_MAX: usize = 16_384;

/// Requests of one origin that are followed, so that none pushes out the others'.
pub const REQUESTS_PER_ORIGIN_MAX: usize = 2048;

/// A request that its origin has not reported for so long is forgotten: it says everything anew every second.
pub const REPORT_LIFETIME: Duration = Duration::from_secs(20);

/// How long a step that was refused is not proposed again.
const REFUSAL_RESTS: Duration = Duration::from_secs(10);

/// A request that an origin reports.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Followed {
    pub(super) origin: PeerId,
    pub(super) report: RequestReport,
    heard_at: Now,
    /// The origin has asked where to run it since: whatever the report says is about to change.
    is_being_placed: bool,
    /// When a plan was last made for what the report says.
    planned_at: Option<Now>,
    /// The last plan for this assignment.
    planned: Option<(Generation, PlanStep)>,
    /// The last that its origin refused, and when.
    refused: Option<(PlanStep, Now)>,
}

/// What is wrong with a report. The peer that made it is at fault, or unlucky; nobody else suffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportFault {
    /// Another peer reports the same request.
    #[error("of a request that another peer reports")]
    OfAnother,
    /// There is no room for one more request.
    #[error("of one request too many")]
    NoRoom,
}

/// All of them. Bounded.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ledger {
    requests: BTreeMap<RequestId, Followed>,
    of_origins: BTreeMap<PeerId, usize>,
    /// To be looked at, those that cannot wait first.
    due: BTreeSet<(Urgency, RequestId)>,
}

/// How soon a request is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Before the others: its worker has left, or says that it will.
    AtOnce,
    /// In its turn.
    InTurn,
}

impl Followed {
    fn new(now: Now, origin: PeerId, report: RequestReport) -> Self {
        Self { origin, report, heard_at: now, is_being_placed: false, planned_at: None, planned: None, refused: None }
    }
}

impl Ledger {
    /// Takes in what `origin` says. True where that is news.
    pub(super) fn take_in(&mut self, now: Now, origin: PeerId, report: RequestReport) -> Result<bool, ReportFault> {
        if let Some(known) = self.requests.get_mut(&report.request) {
            if known.origin != origin {
                return Err(ReportFault::OfAnother);
            }
            if report.version() <= known.report.version() {
                return Ok(false);
            }
            let (planned, refused) =
                if report.epoch == known.report.epoch { (known.planned, known.refused) } else { (None, None) };
            *known = Followed { planned, refused, ..Followed::new(now, origin, report) };
            return Ok(true);
        }
        let of_origin = self.of_origins.get(&origin).copied().unwrap_or(0);
        if self.requests.len() >= REQUESTS_MAX || of_origin >= REQUESTS_PER_ORIGIN_MAX {
            return Err(ReportFault::NoRoom);
        }
        self.of_origins.insert(origin, of_origin + 1);
        self.requests.insert(report.request, Followed::new(now, origin, report));
        Ok(true)
    }

    /// Whether a plan may be made: not while the origin has the request placed, nor so soon again that the last plan can
    /// hardly show in a report.
    pub(super) fn may_plan(&self, now: Now, request: RequestId, check_interval: Duration) -> bool {
        self.requests.get(&request).is_some_and(|known| {
            let is_soon = known.planned_at.is_some_and(|at| now.saturating_sub(at) < check_interval);
            !known.is_being_placed && !is_soon
        })
    }

    /// Whether the origin refused such a step a moment ago, so that it would refuse it again.
    pub(super) fn is_refused(&self, now: Now, request: RequestId, step: &PlanStep) -> bool {
        let refused = self.requests.get(&request).and_then(|known| known.refused);
        refused.is_some_and(|(refused, at)| now.saturating_sub(at) < REFUSAL_RESTS && is_alike(&refused, step))
    }

    /// `origin` does not follow a plan. True where that was its last one.
    pub(super) fn refuse(&mut self, now: Now, origin: PeerId, refused: &PlanRefused) -> bool {
        let Some(known) = self.requests.get_mut(&refused.request).filter(|known| known.origin == origin) else {
            return false;
        };
        let Some((_, step)) = known.planned.filter(|(generation, _)| *generation == refused.generation) else {
            return false;
        };
        match refused.why {
            // The next plan is another one in any case: of a later report, or with a later number.
            PlanRefusal::OtherEpoch | PlanRefusal::Overtaken => known.planned_at = None,
            PlanRefusal::NotAccepted
            | PlanRefusal::SourceLeaving
            | PlanRefusal::RuledOut
            | PlanRefusal::PreparesAlready
            | PlanRefusal::PreparesNothing
            | PlanRefusal::OtherStep
            | PlanRefusal::NotReady
            | PlanRefusal::NearlyDone
            | PlanRefusal::TooOften
            | PlanRefusal::Begun
            | PlanRefusal::Overridden => known.refused = Some((step, now)),
        }
        true
    }

    /// A plan is made: for whom, and for which assignment.
    pub(super) fn mark_planned(
        &mut self,
        now: Now,
        request: RequestId,
        planned: (Generation, PlanStep),
    ) -> Option<(PeerId, Epoch)> {
        let known = self.requests.get_mut(&request)?;
        known.planned_at = Some(now);
        known.planned = Some(planned);
        Some((known.origin, known.report.epoch))
    }

    /// The request has ended, says `origin`. Of another's nothing is believed.
    pub(super) fn end(&mut self, origin: PeerId, request: RequestId) {
        if self.requests.get(&request).is_some_and(|known| known.origin == origin) {
            self.remove(request);
        }
    }

    /// `origin` asks where to run the request.
    pub(super) fn mark_being_placed(&mut self, origin: PeerId, request: RequestId) {
        if let Some(known) = self.requests.get_mut(&request)
            && known.origin == origin
        {
            known.is_being_placed = true;
        }
    }

    /// Forgets those of which nothing was heard for [`REPORT_LIFETIME`].
    pub(super) fn expire(&mut self, now: Now) {
        let is_old = |known: &Followed| now.saturating_sub(known.heard_at) > REPORT_LIFETIME;
        let old: Vec<RequestId> = self.requests.iter().filter(|(_, known)| is_old(known)).map(|(id, _)| *id).collect();
        for request in old {
            self.remove(request);
        }
    }

    /// Everything is to be looked at.
    pub(super) fn begin_round(&mut self) {
        self.due.extend(self.requests.keys().map(|request| (Urgency::InTurn, *request)));
    }

    /// Whatever `peer` runs, or prepares, is to be looked at before the rest.
    pub(super) fn hurry(&mut self, peer: PeerId) {
        let concerns = |known: &Followed| {
            let standby = known.report.standby.map(|standby| standby.peer);
            known.report.worker() == Some(peer) || standby == Some(peer)
        };
        let concerned = self.requests.iter().filter(|(_, known)| concerns(known));
        self.due.extend(concerned.map(|(request, _)| (Urgency::AtOnce, *request)));
    }

    /// The request is to be looked at before the rest.
    pub(super) fn hurry_one(&mut self, request: RequestId) {
        self.due.insert((Urgency::AtOnce, request));
    }

    /// The next one to look at.
    pub(super) fn next_due(&mut self) -> Option<RequestId> {
        let (_, request) = self.due.pop_first()?;
        self.due.remove(&(Urgency::InTurn, request));
        Some(request)
    }

    /// Whether any is to be looked at.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn followed(&self, request: RequestId) -> Option<&Followed> {
        self.requests.get(&request)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    fn remove(&mut self, request: RequestId) {
        let Some(known) = self.requests.remove(&request) else { return };
        self.due.remove(&(Urgency::AtOnce, request));
        self.due.remove(&(Urgency::InTurn, request));
        if let Some(count) = self.of_origins.get_mut(&known.origin) {
            *count -= 1;
            if *count == 0 {
                self.of_origins.remove(&known.origin);
            }
        }
    }
}

/// Whether both would have the same done with the same peer.
fn is_alike(one: &PlanStep, other: &PlanStep) -> bool {
    core::mem::discriminant(one) == core::mem::discriminant(other) && one.peer() == other.peer()
}
