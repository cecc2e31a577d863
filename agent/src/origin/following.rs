//! One request among coordinators: what it is told, whether it follows, what it says of itself.

use idlewild_coordinator::Now;
use idlewild_coordinator::length::LengthEstimate;
use idlewild_coordinator::ownership::{Dropped, Input, RequestMachine};
use idlewild_protocol::{Epoch, Generation, PeerId, Plan, PlanReason, PlanRefusal, PlanRefused, RequestId};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info};

use super::manual::Manual;
use super::moves::{MoveLog, MoveStory};
use super::open_requests::{MoveRefused, OpenRequests, Registration, Told, Wish};
use super::overheads::MeasuredOverheads;
use super::reporting::{CLOSE_TOKENS, Reporter, Reports};
use super::stopwatch::Stopwatch;
use super::streams::Pulled;
use crate::api::wire::MeasuredMove;
use crate::driver::Clock;

/// What the task of a request hears of plans, and what it says to those who make them.
#[derive(Debug)]
pub(super) struct Following {
    me: PeerId,
    began: Now,
    reporter: Reporter,
    moves: MoveLog,
    stopwatch: Stopwatch,
    has_news: bool,
    /// What a person wants of it, and who waits for the first answer.
    manual: Option<Manual>,
    asker: Option<oneshot::Sender<Result<(), MoveRefused>>>,
    told: mpsc::Receiver<Told>,
    _registration: Registration,
}

impl Following {
    /// Of a request that is accepted `now`.
    pub(super) fn new(
        (me, now): (PeerId, Now),
        requests: &OpenRequests,
        (reports, overheads): (Reports, MeasuredOverheads),
        request: RequestId,
        estimate: LengthEstimate,
    ) -> Self {
        let (registration, told) = requests.register(request);
        let reporter = Reporter::new(reports, request, estimate);
        Self {
            me,
            began: now,
            reporter,
            moves: MoveLog::default(),
            stopwatch: Stopwatch::new(overheads),
            has_news: false,
            manual: None,
            asker: None,
            told,
            _registration: registration,
        }
    }

    /// Waits for the next thing that it is told; none when it is time to report.
    pub(super) async fn next(&mut self, clock: Clock) -> Option<Told> {
        let due = self.reporter.due();
        let report = async {
            match due {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(told) = self.told.recv() => Some(told),
            () = report => None,
        }
    }

    /// Takes in what it was told. The machine's outputs are to be carried out, then [`Self::follow_up`] asked.
    pub(super) fn take(&mut self, now: Now, machine: &mut RequestMachine, told: Told) {
        match told {
            Told::Plan { by, plan } if self.manual.is_some() => {
                let generation = plan.generation;
                self.moves.hear(now.saturating_sub(self.began), by, &plan, machine);
                self.refused(machine, generation, PlanRefusal::Overridden);
            }
            Told::Plan { by, plan } => self.propose(now, machine, by, *plan),
            Told::Move { wish, reply } => self.wish(now, machine, wish, reply),
        }
    }

    fn propose(&mut self, now: Now, machine: &mut RequestMachine, by: PeerId, plan: Plan) {
        debug!(by = %by.short(), step = ?plan.step, reason = ?plan.terms.reason, "is planned");
        self.moves.hear(now.saturating_sub(self.began), by, &plan, machine);
        machine.handle(now, Input::Proposed(plan));
    }

    fn wish(
        &mut self,
        now: Now,
        machine: &mut RequestMachine,
        wish: Wish,
        reply: oneshot::Sender<Result<(), MoveRefused>>,
    ) {
        info!(to = %wish.to.short(), way = ?wish.way, prepare_only = wish.prepare_only, "somebody wants it moved");
        let in_the_way = match machine.live() {
            None => Some(MoveRefused::BeingPlaced),
            Some((_, worker)) if worker == wish.to => Some(MoveRefused::AlreadyThere),
            Some(_) => None,
        };
        if let Some(why) = in_the_way {
            // Whoever asked may have gone.
            reply.send(Err(why)).ok();
            return;
        }
        self.manual = Some(Manual::new(wish));
        self.asker = Some(reply);
        self.go_on(now, machine);
    }

    /// Proposes the next step of the move that a person asked for. Whether there is one.
    fn go_on(&mut self, now: Now, machine: &mut RequestMachine) -> bool {
        let decode_tps = self.stopwatch.decode_tps().unwrap_or(0.0);
        let next = self.manual.as_mut().and_then(|manual| manual.next(now, decode_tps, machine));
        let Some(plan) = next else { return false };
        self.propose(now, machine, self.me, plan);
        true
    }

    /// The machine does not follow a plan.
    pub(super) fn refused(&mut self, machine: &RequestMachine, generation: Generation, why: PlanRefusal) {
        debug!(?generation, %why, "is not followed");
        let request = machine.spec().request;
        match self.moves.refuse(generation, why) {
            Some((by, PlanReason::Asked)) if by == self.me => {
                self.manual = None;
                self.answer(Err(MoveRefused::Refused(why)));
            }
            Some((by, _)) => {
                let heard = machine.latest_heard();
                self.reporter.refuse(by, PlanRefused { request, generation, why, heard });
            }
            None => {}
        }
    }

    /// A destination is told to prepare, and to pull KV cache or to make it from the ids.
    pub(super) fn prepares(&mut self, now: Now, pulls: bool) {
        self.stopwatch.prepares(now, pulls);
    }

    /// The worker is known to be lost.
    pub(super) fn lost(&self, now: Now, epoch: Epoch) {
        self.stopwatch.lost(now, epoch);
    }

    /// The destination holds something; so much KV cache has come to it.
    pub(super) fn pulled(&mut self, now: Now, destination: PeerId, Pulled { tokens, bytes }: Pulled) {
        self.stopwatch.holds(now);
        if tokens > 0 {
            let measured = MeasuredMove { pulled_tokens: Some(tokens), bytes: Some(bytes), ..MeasuredMove::default() };
            self.moves.measured(destination, measured);
        }
    }

    /// A preparation has come to nothing.
    pub(super) fn dropped(&mut self, destination: PeerId, why: &Dropped) {
        let given_up = self.manual.and_then(|manual| manual.given_up());
        self.moves.came_to(destination, given_up.unwrap_or_else(|| why.to_string()));
    }

    /// All outputs are carried out: reports, and goes on with what a person asked for. Whether there are more outputs now.
    pub(super) fn follow_up(&mut self, now: Now, machine: &mut RequestMachine) -> bool {
        self.measure(now, machine);
        if self.manual.is_some_and(|manual| manual.is_over(machine)) {
            self.manual = None;
        }
        let is_moving = !machine.is_over() && self.go_on(now, machine);
        if !is_moving {
            self.answer(if machine.is_over() { Err(MoveRefused::Ended) } else { Ok(()) });
            self.reporter.look(now, machine);
        }
        is_moving
    }

    /// How long a preparation took, and how long a hand-over was felt.
    fn measure(&mut self, now: Now, machine: &RequestMachine) {
        if let Some(standby) = machine.standby().filter(|standby| standby.lag_tokens <= CLOSE_TOKENS) {
            self.moves.ready(now.saturating_sub(self.began), standby.destination);
        }
        if let Some((epoch, worker, pause)) = self.stopwatch.look(now, machine) {
            self.moves.paused(epoch, worker, pause);
            self.has_news = true;
        }
    }

    /// Whether the records hold what nobody was told yet.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn answer(&mut self, answer: Result<(), MoveRefused>) {
        if let Some(asker) = self.asker.take() {
            // Whoever asked may have gone.
            asker.send(answer).ok();
        }
    }

    /// Its plans so far, the latest 64 of them, and the pauses of its moves.
    pub(super) fn records(&self) -> MoveStory {
        self.moves.story()
    }
}

#[cfg(test)]
#[path = "following_tests.rs"]
mod tests;
