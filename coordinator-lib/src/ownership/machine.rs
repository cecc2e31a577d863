//! The request machine: what it holds, what it hears, what it says.

use std::collections::VecDeque;

use idlewild_protocol::{
    Epoch, FinishReason, Generation, JobEvent, JobStart, PeerId, PlaceReply, PlaceRequest, Plan, PlanRefusal, TokenId,
};

use super::failures::Failures;
use super::leaving::Left;
use super::placing::Placing;
use super::running::Running;
use super::standby::Standby;
use crate::Now;
use crate::ownership::{
    Assignment, Dropped, Ending, Limits, LossReason, Preparation, RequestError, RequestSpec, StandbyNews,
    StandbyReport, TokenLog,
};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A placement was answered, by the coordinator or by ourselves. Answers to earlier questions are ignored.
    Placed(PlaceReply),
    /// The job stream of `epoch` brought this.
    Event {
        /// The assignment whose stream it is.
        epoch: Epoch,
        /// What its worker says.
        event: JobEvent,
    },
    /// The job stream of `epoch` is no more, or was never opened.
    Lost {
        /// The assignment whose stream it was.
        epoch: Epoch,
        /// How the shell knows.
        why: LossReason,
    },
    /// A coordinator, or a person at the origin, proposes a step. The shell has seen to it that it is of this request.
    Proposed(Plan),
    /// The stream of a preparation brought this.
    Standby {
        /// The preparation whose stream it is.
        preparation: Preparation,
        /// What it brought.
        news: StandbyNews,
    },
    /// Nobody reads the answer any more.
    ClientGone,
    /// Time has passed: [`RequestMachine::poll_timeout`] is due.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Ask the coordinator. Where none is visible, or we lead, treat it as [`Output::PlaceAlone`].
    AskPlacement(PlaceRequest),
    /// Ask our own coordinator with our own view: the elected one did not answer in time.
    PlaceAlone(PlaceRequest),
    /// Open a job stream to the worker and send this. Where it names a holder to pull from, that one is told first who may
    /// (`Offer`): its stream is left open for it.
    Start {
        /// To whom.
        worker: PeerId,
        /// What.
        start: Box<JobStart>,
    },
    /// Tell the worker to stop, and close the stream of this epoch.
    Cancel {
        /// Whom.
        worker: PeerId,
        /// Which assignment.
        epoch: Epoch,
    },
    /// Tell the worker to say no token after this index, and to keep the context until it is cancelled or told to go on.
    StopAfter {
        /// Whom.
        worker: PeerId,
        /// Which assignment.
        epoch: Epoch,
        /// The last token's place in the answer.
        index: u32,
    },
    /// Tell the worker that it need not stop after all.
    GoOn {
        /// Whom.
        worker: PeerId,
        /// Which assignment.
        epoch: Epoch,
    },
    /// Open a preparation's stream to the destination and send this. It must say no token before [`Output::TakeOver`].
    /// Where it names a holder to pull from, which is the source, that one is told first who may (`Offer`).
    Prepare {
        /// To whom.
        destination: PeerId,
        /// The stream's name.
        preparation: Preparation,
        /// The context so far, and how to go on from it; of epoch 0, which is never live.
        context: Box<JobStart>,
    },
    /// Send the destination more ids of the answer.
    Forward {
        /// To whom.
        destination: PeerId,
        /// On which stream.
        preparation: Preparation,
        /// Place of the first of them.
        from_index: u32,
        /// In order.
        ids: Vec<TokenId>,
    },
    /// Tell the destination to keep up with the source, or just to keep what it has.
    Keep {
        /// Whom.
        destination: PeerId,
        /// On which stream.
        preparation: Preparation,
        /// Whether ids will come that it is to read as they do.
        warm: bool,
    },
    /// Tell the destination that it is the worker now. Its stream is that of the epoch from here on: what it brings is
    /// [`Input::Event`], and its end [`Input::Lost`].
    TakeOver {
        /// Whom.
        destination: PeerId,
        /// On which stream.
        preparation: Preparation,
        /// The live epoch now.
        epoch: Epoch,
        /// Place of the first token that it says. Every id before it was sent.
        from_index: u32,
    },
    /// Close the stream of a preparation: the destination may forget the context.
    Release {
        /// Whom.
        destination: PeerId,
        /// Which stream.
        preparation: Preparation,
        /// Why it came to nothing.
        why: Dropped,
    },
    /// To the coordinator that proposed it: this is not followed.
    Refused {
        /// Which proposal.
        generation: Generation,
        /// Why.
        why: PlanRefusal,
    },
    /// To the coordinator: what there is to take over now; none any more. On every change.
    Standby(Option<StandbyReport>),
    /// To the client: the prompt has this many tokens. Once.
    Prompt {
        /// Tokens.
        tokens: u32,
    },
    /// To the client: more of the answer. One per token, in order; and one more at the end for held-back text, if any,
    /// with the index after the last.
    Text {
        /// The token's place in the answer.
        index: u32,
        /// What it adds; may be empty.
        text: String,
    },
    /// To the client: the answer is complete. The last output.
    Done {
        /// Why it ended.
        reason: FinishReason,
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Tokens of the answer.
        output_tokens: u32,
    },
    /// To the client, in band: the answer will not be completed. The last output.
    Failed(RequestError),
    /// For the log and `explain`: the request goes on elsewhere (or on the same peer anew).
    Moved {
        /// Who ran it.
        from: PeerId,
        /// Who runs it now.
        to: PeerId,
        /// Index of the first token that comes from there.
        at_index: u32,
        /// Why.
        why: Ending,
    },
}

/// One request at its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestMachine {
    pub(super) spec: RequestSpec,
    pub(super) limits: Limits,
    pub(super) log: TokenLog,
    pub(super) placing: Placing,
    /// The live assignment. Its epoch is the live epoch; without one no token is accepted.
    pub(super) running: Option<Running>,
    /// The destination that gets ready, beside the live assignment.
    pub(super) standby: Option<Standby>,
    /// Whoever had it before and is leaving, as long as the KV cache may be pulled from it.
    pub(super) left: Option<Left>,
    /// Of the latest plan that was made for its live assignment.
    pub(super) latest: Option<Generation>,
    pub(super) preparations: u32,
    pub(super) failures: Failures,
    pub(super) story: Vec<Assignment>,
    over: bool,
    outputs: VecDeque<Output>,
}

impl RequestMachine {
    /// A request that begins now: its first output asks for a placement.
    pub fn new(now: Now, spec: RequestSpec, limits: Limits) -> Self {
        let mut machine = Self {
            spec,
            limits,
            log: TokenLog::default(),
            placing: Placing::default(),
            running: None,
            standby: None,
            left: None,
            latest: None,
            preparations: 0,
            failures: Failures::default(),
            story: Vec::new(),
            over: false,
            outputs: VecDeque::new(),
        };
        machine.search(now);
        machine
    }

    /// Takes in what happened. Deadlines are looked at on [`Input::Tick`] only.
    pub fn handle(&mut self, now: Now, input: Input) {
        if self.over {
            return;
        }
        match input {
            Input::Placed(reply) => self.handle_placed(now, reply),
            Input::Event { epoch, event } => self.handle_event(now, epoch, event),
            Input::Lost { epoch, why } => self.handle_lost(now, epoch, why),
            Input::Proposed(proposal) => self.handle_proposed(now, proposal),
            Input::Standby { preparation, news } => self.handle_standby(now, preparation, news),
            Input::ClientGone => self.handle_client_gone(now),
            Input::Tick => self.handle_tick(now),
        }
    }

    /// The next thing to do; none when all is done for now.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to tick next; none when the request is over.
    pub fn poll_timeout(&self) -> Option<Now> {
        if self.over {
            return None;
        }
        let silence = self.silence().map(|(at, _)| at);
        [silence, self.standby_timeout(), self.left_timeout(), self.placing.timeout()].into_iter().flatten().min()
    }

    /// Whether the last output has been given (or waits in [`Self::poll_output`]).
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The token log.
    pub fn log(&self) -> &TokenLog {
        &self.log
    }

    /// What the client asked for.
    pub fn spec(&self) -> &RequestSpec {
        &self.spec
    }

    /// The live epoch and its worker; none between two assignments.
    pub fn live(&self) -> Option<(Epoch, PeerId)> {
        self.running.as_ref().map(|r| (r.epoch, r.worker))
    }

    /// The destination that gets ready; none without one.
    pub fn standby(&self) -> Option<StandbyReport> {
        self.standby.as_ref().map(|standby| standby.report(&self.log))
    }

    /// The latest plan that was heard for a live assignment: what is to be followed must be later.
    pub fn latest_heard(&self) -> Option<Generation> {
        self.latest
    }

    /// Whether it only waits at its worker, as far as that has said.
    pub fn is_queued(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.patience.is_waiting())
    }

    /// Tokens of the prompt: counted by a worker, or estimated.
    pub fn prompt_tokens(&self) -> u32 {
        self.counted_prompt_tokens()
    }

    /// Peers that may not take it now: those that failed it.
    pub fn failed_by(&self, now: Now) -> Vec<PeerId> {
        self.failures.excluded(now, &self.limits, false)
    }

    /// Every assignment so far, in order: at most [`Limits::assignments_max`].
    pub fn story(&self) -> &[Assignment] {
        &self.story
    }

    pub(super) fn say(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Says the last thing.
    pub(super) fn conclude(&mut self, last: Option<Output>) {
        self.drop_standby(Dropped::RequestEnded);
        self.let_go();
        self.outputs.extend(last);
        self.over = true;
        self.running = None;
        self.placing = Placing::default();
    }

    fn handle_client_gone(&mut self, now: Now) {
        self.stop_running(now, Ending::ClientGone);
        self.conclude(None);
    }

    /// One timer at a time: where another is due too, `poll_timeout` says so.
    fn handle_tick(&mut self, now: Now) {
        if !self.check_left(now) && !self.check_standby(now) && !self.check_silence(now) {
            self.check_placing(now);
        }
    }
}
