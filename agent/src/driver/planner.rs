//! The coordinator's machine on a live peer: for everybody while it leads, for its own requests while nobody does.
//!
//! ```text
//! our own requests --news--> own reports --+-- we lead, or nobody does --> Coordinator --> plans --> open requests (ours)
//! other peers, while we lead --------------+                                                   '--> mail (of others)
//! the coordinator, if another peer is <----'                 its plans, for ours --> open requests
//! ```
//!
//! Invariant: a plan reaches a request only from whoever coordinates by our own view. What is said of a request counts only
//! from its origin.

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_coordinator::Now;
use idlewild_coordinator::coordinator::{Coordinator, CoordinatorConfig, Input, Output};
use idlewild_coordinator::cost::Overheads;
use idlewild_coordinator::view::View;
use idlewild_protocol::{
    ControlMessage, DepartureCause, PeerId, PlaceReply, PlaceRequest, Plan, PlanRefused, RequestId, RequestReport,
    Term, Way,
};
use tracing::{debug, warn};

use crate::origin::{MeasuredOverheads, OpenRequests, OriginNews, Told};

/// Messages to be sent, with their receivers.
pub(super) type Mail = Vec<(PeerId, ControlMessage)>;

/// Who coordinates, as far as this peer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// The election.
    pub(super) term: Term,
    /// Its leader: this peer, or one that can be reached; none: nobody is visible.
    pub(super) leader: Option<PeerId>,
}

/// The machine, what our own requests last said, and where plans for them go.
#[derive(Debug)]
pub(super) struct Planner {
    me: PeerId,
    coordinator: Coordinator,
    /// None before the first look.
    standing: Option<Standing>,
    /// Bounded by the requests that may be open.
    own: BTreeMap<RequestId, RequestReport>,
    open: OpenRequests,
    measured: MeasuredOverheads,
}

impl Planner {
    pub(super) fn new(me: PeerId, open: OpenRequests, measured: MeasuredOverheads) -> Self {
        let coordinator = Coordinator::new(CoordinatorConfig::default());
        Self { me, coordinator, standing: None, own: BTreeMap::new(), open, measured }
    }

    fn leader(&self) -> Option<PeerId> {
        self.standing.and_then(|standing| standing.leader)
    }

    /// Another peer that is told how our own requests are doing; none: we go by it ourselves.
    fn reader(&self) -> Option<PeerId> {
        self.leader().filter(|leader| *leader != self.me)
    }

    /// Takes in who coordinates. Whoever is new to it is told of all our requests at once.
    pub(super) fn follow(&mut self, now: Now, view: &View, standing: Standing) -> Mail {
        if self.standing == Some(standing) {
            return Mail::new();
        }
        self.standing = Some(standing);
        let term = standing.term;
        let input = if self.reader().is_none() { Input::Leading { term } } else { Input::Following { term } };
        let mut mail = self.hear(now, view, input);
        // One whose end was not heard for the noise is gone all the same.
        let open = &self.open;
        self.own.retain(|request, _| open.has(*request));
        let own: Vec<RequestReport> = self.own.values().cloned().collect();
        debug!(term = %term, leader = ?standing.leader.map(PeerId::short), requests = own.len(), "reports anew");
        for report in own {
            mail.extend(self.report(now, view, report));
        }
        mail
    }

    /// Where a request should run, as far as this peer knows.
    pub(super) fn place(&mut self, now: Now, view: &View, origin: PeerId, request: &PlaceRequest) -> PlaceReply {
        self.coordinator.answer(now, view, origin, request)
    }

    /// What one of our own requests says.
    pub(super) fn hear_own(&mut self, now: Now, view: &View, news: OriginNews) -> Mail {
        match news {
            OriginNews::Report(report) => {
                self.own.insert(report.request, (*report).clone());
                self.report(now, view, *report)
            }
            OriginNews::Refused { to, refused } if to == self.me => {
                self.hear(now, view, Input::Refused { origin: self.me, refused })
            }
            OriginNews::Refused { to, refused } => vec![(to, ControlMessage::PlanRefused(refused))],
            OriginNews::Ended(request) => {
                self.own.remove(&request);
                match self.reader() {
                    Some(reader) => vec![(reader, ControlMessage::Ended { request })],
                    None => self.hear(now, view, Input::Ended { origin: self.me, request }),
                }
            }
        }
    }

    fn report(&mut self, now: Now, view: &View, report: RequestReport) -> Mail {
        match self.reader() {
            Some(reader) => vec![(reader, ControlMessage::Report(Box::new(report)))],
            None => self.hear(now, view, Input::Report { origin: self.me, report }),
        }
    }

    /// Another peer reports a request of its own. It counts while we lead.
    pub(super) fn reported(&mut self, now: Now, view: &View, from: PeerId, report: RequestReport) -> Mail {
        self.hear_origin(now, view, Input::Report { origin: from, report })
    }

    /// A request of another peer has ended.
    pub(super) fn ended(&mut self, now: Now, view: &View, from: PeerId, request: RequestId) -> Mail {
        self.hear_origin(now, view, Input::Ended { origin: from, request })
    }

    /// Another peer does not follow a plan of ours.
    pub(super) fn refused(&mut self, now: Now, view: &View, from: PeerId, refused: PlanRefused) -> Mail {
        self.hear_origin(now, view, Input::Refused { origin: from, refused })
    }

    fn hear_origin(&mut self, now: Now, view: &View, input: Input) -> Mail {
        if self.leader() != Some(self.me) {
            debug!(?input, "ignored: we do not coordinate");
            return Mail::new();
        }
        self.hear(now, view, input)
    }

    /// Another peer plans something for a request of ours. It counts if that peer coordinates.
    pub(super) fn planned(&self, from: PeerId, plan: Plan) {
        let is_of_term = self.standing.is_some_and(|standing| standing.term == plan.generation.term);
        if self.reader() == Some(from) && is_of_term {
            self.tell_own(from, plan);
        } else {
            debug!(peer = %from.short(), request = %plan.request, "ignored: a plan of a peer that does not coordinate");
        }
    }

    fn tell_own(&self, by: PeerId, plan: Plan) {
        let request = plan.request;
        if self.open.tell(request, Told::Plan { by, plan: Box::new(plan) }).is_err() {
            debug!(%request, by = %by.short(), "a plan is dropped: its request has ended, or is not ours");
        }
    }

    /// The view has taken in news of a peer.
    pub(super) fn peer_changed(&mut self, now: Now, view: &View, peer: PeerId) -> Mail {
        self.hear(now, view, Input::PeerChanged { peer })
    }

    /// A peer says that it will stop.
    pub(super) fn noticed(
        &mut self,
        (now, view): (Now, &View),
        peer: PeerId,
        cause: DepartureCause,
        notice: Duration,
    ) -> Mail {
        self.hear(now, view, Input::Notice { peer, cause, notice })
    }

    /// Time has passed, if it has.
    pub(super) fn tick(&mut self, now: Now, view: &View) -> Mail {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return Mail::new();
        }
        self.hear(now, view, Input::Tick)
    }

    /// What moves and losses of our own requests took.
    pub(super) fn measured(&self) -> &MeasuredOverheads {
        &self.measured
    }

    /// What they are believed to take, here and elsewhere.
    pub(super) fn overheads(&self, view: &View) -> Overheads {
        self.coordinator.overheads(view)
    }

    /// When to tick.
    pub(super) fn poll_timeout(&self) -> Option<Now> {
        self.coordinator.poll_timeout()
    }

    /// What a running request of ours last said.
    pub(super) fn own(&self, request: RequestId) -> Option<&RequestReport> {
        self.own.get(&request)
    }

    /// Those that run.
    pub(super) fn open(&self) -> &OpenRequests {
        &self.open
    }

    /// How the context of a request would best get to a peer.
    pub(super) fn way(&self, now: Now, view: &View, report: &RequestReport, to: PeerId) -> Way {
        self.coordinator.way(now, view, report, to)
    }

    fn hear(&mut self, now: Now, view: &View, input: Input) -> Mail {
        self.coordinator.handle(now, view, input);
        let mut mail = Mail::new();
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Propose { origin, plan } if origin == self.me => self.tell_own(self.me, plan),
                Output::Propose { origin, plan } => mail.push((origin, ControlMessage::Plan(Box::new(plan)))),
                Output::Answer { origin, reply } => mail.push((origin, ControlMessage::Placed(reply))),
                Output::PeerFault { peer, fault } => warn!(peer = %peer.short(), %fault, "ignored a report"),
            }
        }
        mail
    }
}

#[cfg(test)]
mod tests;
