//! What the coordinator hears of a running request: at once when anything but the tokens changes, and once a second.

use std::time::Duration;

use idlewild_coordinator::Now;
use idlewild_coordinator::length::LengthEstimate;
use idlewild_coordinator::ownership::{Assignment, Ending, RequestMachine, StandbyReport, StandbyStage};
use idlewild_protocol::{PeerId, PlanRefused, RequestId, RequestReport, RequestStage, Standby, StandbyState};
use tokio::sync::mpsc;

/// News that may wait for the driver, which takes them in microseconds. What finds no room is said again within a second.
const NEWS: usize = 1024;

/// Between two reports of which nothing but the tokens has changed.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Between any two reports: a request in trouble must not talk without pause.
const LEAST: Duration = Duration::from_millis(250);

/// Tokens of lag up to which a standby keeps up with any source: to cross it is news.
pub(super) const CLOSE_TOKENS: u32 = 20;

/// What origins tell the driver, for the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum OriginNews {
    /// How a request is doing.
    Report(Box<RequestReport>),
    /// A plan is not followed.
    Refused {
        /// Who made it.
        to: PeerId,
        /// Which, and why.
        refused: PlanRefused,
    },
    /// A request has ended.
    Ended(RequestId),
}

/// Where origins say it. Cheap to clone. Never waits: a token is worth more than a report.
#[derive(Debug, Clone)]
pub struct Reports {
    news: mpsc::Sender<OriginNews>,
}

impl Reports {
    /// A handle, and what is said.
    pub fn channel() -> (Self, mpsc::Receiver<OriginNews>) {
        let (news, receiver) = mpsc::channel(NEWS);
        (Self { news }, receiver)
    }

    pub(super) fn say(&self, news: OriginNews) {
        self.news.try_send(news).ok();
    }
}

/// Says how one request is doing.
#[derive(Debug)]
pub(super) struct Reporter {
    reports: Reports,
    request: RequestId,
    estimate: LengthEstimate,
    sequence: u64,
    /// The last report, and when it was made.
    last: Option<(RequestReport, Now)>,
    /// When the next one is due.
    due: Option<Now>,
}

impl Reporter {
    /// Of a request whose answer is believed to be as long as `estimate` says.
    pub(super) fn new(reports: Reports, request: RequestId, estimate: LengthEstimate) -> Self {
        Self { reports, request, estimate, sequence: 0, last: None, due: None }
    }

    /// When to look again though nothing happens.
    pub(super) fn due(&self) -> Option<Now> {
        self.due
    }

    /// Looks at the request, and reports what is to be reported now.
    pub(super) fn look(&mut self, now: Now, machine: &RequestMachine) {
        let Some(report) = self.report(now, machine) else {
            self.due = None;
            return;
        };
        let at = match &self.last {
            None => now,
            Some((last, at)) if says_the_same(last, &report) => *at + HEARTBEAT,
            Some((_, at)) => *at + LEAST,
        };
        if at > now {
            self.due = Some(at);
            return;
        }
        self.sequence += 1;
        let report = RequestReport { sequence: self.sequence, ..report };
        self.last = Some((report.clone(), now));
        self.due = Some(now + HEARTBEAT);
        self.reports.say(OriginNews::Report(Box::new(report)));
    }

    /// A plan of `to`'s is not followed.
    pub(super) fn refuse(&self, to: PeerId, refused: PlanRefused) {
        self.reports.say(OriginNews::Refused { to, refused });
    }

    /// None before it has had a worker, and after its end.
    fn report(&self, now: Now, machine: &RequestMachine) -> Option<RequestReport> {
        let last = machine.story().last().filter(|_| !machine.is_over())?;
        let spec = machine.spec();
        let done_tokens = machine.log().next_index();
        let residual = self.estimate.residual(done_tokens, Some(spec.max_tokens));
        Some(RequestReport {
            request: spec.request,
            epoch: last.epoch,
            sequence: 0,
            model: spec.model,
            stage: stage(now, machine, last),
            prompt_tokens: machine.prompt_tokens(),
            done_tokens,
            residual_tokens: residual.quantiles_tokens.map(|tokens| tokens.round() as u32),
            hops: planned_moves(machine),
            standby: machine.standby().map(standby),
            excluded: machine.failed_by(now),
        })
    }
}

/// The end is said however the task ends.
impl Drop for Reporter {
    fn drop(&mut self) {
        if self.last.is_some() {
            self.reports.say(OriginNews::Ended(self.request));
        }
    }
}

fn stage(now: Now, machine: &RequestMachine, last: &Assignment) -> RequestStage {
    let Some((_, worker)) = machine.live() else { return RequestStage::Orphaned };
    if !machine.is_queued() {
        return RequestStage::Running { worker };
    }
    let wait_s = last.plan.terms.iter().find(|terms| terms.peer == worker).map_or(0.0, |terms| terms.wait_s);
    let waited = now.saturating_sub(last.began);
    let wait = Duration::try_from_secs_f64(wait_s).unwrap_or_default().saturating_sub(waited);
    RequestStage::Queued { worker, wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX) }
}

fn planned_moves(machine: &RequestMachine) -> u32 {
    let is_planned = |assignment: &&Assignment| matches!(assignment.ended, Some((_, Ending::HandedOver)));
    u32::try_from(machine.story().iter().filter(is_planned).count()).unwrap_or(u32::MAX)
}

fn standby(report: StandbyReport) -> Standby {
    let StandbyReport { destination, way, stage, lag_tokens, .. } = report;
    let state = match stage {
        StandbyStage::Preparing => StandbyState::Preparing,
        StandbyStage::Holding => StandbyState::Holding,
        StandbyStage::Paused => StandbyState::Paused,
        StandbyStage::Committing { .. } => StandbyState::Committing,
    };
    Standby { peer: destination, way, state, lag_tokens }
}

/// Whether nothing has changed but what changes with every token.
fn says_the_same(one: &RequestReport, other: &RequestReport) -> bool {
    let place = |report: &RequestReport| {
        let is_queued = matches!(report.stage, RequestStage::Queued { .. });
        let standby = report.standby.map(|s| (s.peer, s.way, s.state, s.lag_tokens <= CLOSE_TOKENS));
        (report.epoch, report.worker(), is_queued, report.hops, standby)
    };
    place(one) == place(other) && one.excluded == other.excluded
}
