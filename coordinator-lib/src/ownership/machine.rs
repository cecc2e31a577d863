//! The request machine: what it holds, what it hears, what it says.

use std::collections::VecDeque;

use idlewild_protocol::{Epoch, FinishReason, JobEvent, JobStart, PeerId, PlaceReply, PlaceRequest};

use super::failures::Failures;
use super::placing::Placing;
use super::running::Running;
use crate::Now;
use crate::ownership::{Assignment, Ending, Limits, LossReason, RequestError, RequestSpec, TokenLog};

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
    /// Open a job stream to the worker and send this.
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
        let silence = self.running.as_ref().map(|r| r.patience.deadline(&self.limits).0);
        [silence, self.placing.timeout()].into_iter().flatten().min()
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

    /// Every assignment so far, in order: at most [`Limits::assignments_max`].
    pub fn story(&self) -> &[Assignment] {
        &self.story
    }

    pub(super) fn say(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Says the last thing.
    pub(super) fn conclude(&mut self, last: Option<Output>) {
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
        if !self.check_silence(now) {
            self.check_placing(now);
        }
    }
}
