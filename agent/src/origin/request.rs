//! The task of one request: does what the machine says, tells it what happened.

use std::time::Duration;

use idlewild_coordinator::ownership::{Input, Limits, Output, RequestMachine, RequestSpec};
use idlewild_protocol::{Epoch, FinishReason, JobEvent, JobInput, JobRequest, JobStart, PeerId};
use tokio::sync::mpsc;
use tracing::{Instrument, debug, info, info_span};

use super::following::Following;
use super::lengths::{expected, prompt_tokens};
use super::open_requests::Told;
use super::outbox::Outbox;
use super::placer::Answer;
use super::reading::ReadingNews;
use super::record::Particulars;
use super::streams::Streams;
use super::turns::Turns;
use super::{Failure, GenerationEvent, GenerationRequest, Shell, Submission, failure};
use crate::api::wire::ExplainReply;

/// Answers that may wait: late ones to old questions are skipped by the machine.
const ANSWERS: usize = 4;

/// Everything around one machine.
pub(super) struct RequestTask {
    shell: Shell,
    machine: RequestMachine,
    particulars: Particulars,
    outbox: Outbox,
    /// The last event, once there is one.
    last: Option<GenerationEvent>,
    streams: Streams,
    answers_in: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
    following: Following,
    reading: ReadingNews,
    turns: Turns,
}

/// What woke the task.
enum Woke {
    Input(Input),
    Answer(Answer),
    /// A stream brought what is nothing to the request.
    Nothing,
    /// It is told something; none: it is time to report.
    Told(Option<Told>),
    Delivered,
    ClientGone,
    ShutDown,
}

impl RequestTask {
    pub(super) fn new(shell: Shell, submission: Submission) -> Self {
        let Submission { request, events } = submission;
        let now = shell.clock.now();
        let model_name = shell.catalogue.borrow().model(request.model).map(|model| model.info.name.clone());
        let particulars = Particulars::new(shell.me, model_name.unwrap_or_else(|| request.model.to_string()), now);
        let spec = spec_of(&shell, request);
        let estimate = shell.lengths.estimate(spec.model, spec.prompt_tokens_estimate);
        let (reports, id) = (shell.reports.clone(), spec.request);
        let following = Following::new((shell.me, now), &shell.open, (reports, shell.overheads.clone()), id, estimate);
        let machine = RequestMachine::new(now, spec, Limits::default());
        let (answers_in, answers) = mpsc::channel(ANSWERS);
        let outbox = Outbox::new(events);
        let streams = Streams::new();
        let (reading, turns) = (ReadingNews::default(), Turns::default());
        Self {
            shell,
            machine,
            particulars,
            outbox,
            last: None,
            streams,
            answers_in,
            answers,
            following,
            reading,
            turns,
        }
    }

    /// Runs to the last event, or until the client is gone.
    pub(super) async fn run(self) {
        let span = info_span!("request", id = %self.machine.spec().request);
        self.work().instrument(span).await;
    }

    async fn work(mut self) {
        info!(model = %self.particulars.model_name, "accepted");
        let mut client_gone = false;
        self.carry_out();
        while !self.machine.is_over() {
            let woke = self.wake().await;
            let is_told = matches!(woke, Woke::Told(Some(_)));
            match woke {
                Woke::Input(input) => {
                    self.pass_on_reading(&input);
                    if let Input::Lost { epoch, .. } = input
                        && self.machine.live().is_some_and(|(live, _)| live == epoch)
                    {
                        self.following.lost(self.shell.clock.now(), epoch);
                    }
                    self.machine.handle(self.shell.clock.now(), input);
                }
                Woke::Told(Some(told)) => self.following.take(self.shell.clock.now(), &mut self.machine, told),
                Woke::Told(None) => {}
                Woke::Answer(answer) => {
                    let placed = self.take_answer(answer);
                    self.machine.handle(self.shell.clock.now(), placed);
                }
                Woke::Delivered | Woke::Nothing => continue,
                Woke::ClientGone => {
                    client_gone = true;
                    self.machine.handle(self.shell.clock.now(), Input::ClientGone);
                }
                Woke::ShutDown => {
                    self.shut_down();
                    break;
                }
            }
            self.carry_out();
            while self.following.follow_up(self.shell.clock.now(), &mut self.machine) {
                self.carry_out();
            }
            if self.following.take_news() || is_told {
                self.shell.records.update(self.particulars.record(&self.machine, self.following.records()));
            }
        }
        // The record is closed before the client knows that it is over: who then asks for it finds it whole.
        let record = self.close();
        if let Some(last) = self.last.take() {
            self.outbox.push(last);
        }
        self.shell.records.keep(&record).await;
        while !client_gone && !self.outbox.is_empty() {
            client_gone = !self.outbox.deliver().await;
        }
    }

    async fn wake(&mut self) -> Woke {
        let clock = self.shell.clock;
        let due = self.machine.poll_timeout();
        let tick = async {
            match due {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        if self.turns.is_times(clock.now(), due) {
            return Woke::Input(Input::Tick);
        }
        let Self { streams, answers, following, .. } = self;
        // By lot: what comes without pause from one of them keeps none of the others waiting for long.
        let happened = async {
            tokio::select! {
                input = streams.next() => input.map_or(Woke::Nothing, Woke::Input),
                Some(answer) = answers.recv() => Woke::Answer(answer),
                told = following.next(clock) => Woke::Told(told),
            }
        };
        tokio::select! {
            biased;
            () = self.shell.stop.cancelled() => Woke::ShutDown,
            delivered = self.outbox.deliver() => if delivered { Woke::Delivered } else { Woke::ClientGone },
            woke = happened => woke,
            () = tick => Woke::Input(Input::Tick),
        }
    }

    /// How far the worker is with the prompt matters to nobody but the client.
    fn pass_on_reading(&mut self, input: &Input) {
        if let Input::Event { epoch, event: JobEvent::Prefilled { done, total, .. } } = input
            && self.machine.live().is_some_and(|(live, _)| live == *epoch)
            && self.reading.is_news(self.shell.clock.now(), *epoch, *done)
        {
            self.outbox.push(GenerationEvent::Reading { done: *done, total: *total });
        }
    }

    fn take_answer(&mut self, answer: Answer) -> Input {
        self.particulars.deciders.insert(answer.reply.attempt, answer.by);
        Input::Placed(answer.reply)
    }

    fn carry_out(&mut self) {
        let mut story_grew = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::AskPlacement(request) => self.shell.placer.ask(request, false, self.answers_in.clone()),
                Output::PlaceAlone(request) => self.shell.placer.ask(request, true, self.answers_in.clone()),
                Output::Start { worker, start } => {
                    story_grew = true;
                    self.start(worker, *start);
                }
                Output::Cancel { worker, epoch } => self.cancel(worker, epoch),
                Output::Prompt { tokens } => {
                    story_grew = true;
                    self.outbox.push(GenerationEvent::Prompt { tokens });
                }
                Output::Text { index, text } => self.text(index, text),
                Output::Done { reason, prompt_tokens, output_tokens } => {
                    info!(?reason, prompt_tokens, output_tokens, "done");
                    self.particulars.finish = Some(reason);
                    let ended = reason == FinishReason::Stop;
                    self.shell.lengths.saw(self.machine.spec().model, prompt_tokens, output_tokens, ended);
                    self.last = Some(GenerationEvent::Done { reason, prompt_tokens, output_tokens });
                }
                Output::Failed(error) => {
                    self.fail(failure::explain(&error, self.machine.log().next_index(), self.shell.me));
                }
                Output::Moved { from, to, at_index, why } => {
                    info!(from = %from.short(), to = %to.short(), at_index, %why, "moved");
                    story_grew = true;
                    self.outbox.push(GenerationEvent::Moved { from, at_index });
                }
                step @ (Output::StopAfter { .. }
                | Output::GoOn { .. }
                | Output::Prepare { .. }
                | Output::Forward { .. }
                | Output::Keep { .. }
                | Output::TakeOver { .. }
                | Output::Release { .. }
                | Output::Refused { .. }
                | Output::Standby(_)) => story_grew |= self.carry_out_step(step),
            }
        }
        if story_grew {
            self.shell.records.update(self.particulars.record(&self.machine, self.following.records()));
        }
    }

    /// One output of a planned move. Whether it belongs into the story.
    fn carry_out_step(&mut self, step: Output) -> bool {
        match step {
            Output::StopAfter { epoch, index, .. } => {
                self.streams.tell_worker(epoch, JobRequest::StopAfter { index });
                self.streams.catch_up();
                false
            }
            Output::GoOn { epoch, .. } => {
                self.streams.tell_worker(epoch, JobRequest::GoOn);
                self.streams.calm_down();
                false
            }
            Output::Prepare { destination, preparation, context } => {
                debug!(destination = %destination.short(), ?preparation, "prepares");
                self.following.prepares(self.shell.clock.now(), context.pull.is_some());
                self.streams.prepare(&self.shell.workers, destination, preparation, *context);
                true
            }
            Output::Forward { preparation, from_index, ids, .. } => {
                self.streams.forward(preparation, from_index, &ids);
                false
            }
            Output::Keep { preparation, warm, .. } => {
                self.streams.tell_destination(preparation, JobRequest::Keep { warm });
                false
            }
            Output::TakeOver { destination, preparation, epoch, from_index } => {
                self.outbox.push(GenerationEvent::Placed { worker: destination });
                self.streams.take_over(preparation, epoch, from_index);
                true
            }
            Output::Release { destination, preparation, why } => {
                debug!(?preparation, %why, "releases");
                self.following.dropped(destination, &why);
                self.streams.close_destination(preparation, destination);
                true
            }
            Output::Refused { generation, why } => {
                self.following.refused(&self.machine, generation, why);
                true
            }
            Output::Standby(report) => {
                if let Some(standby) = report.filter(|standby| standby.held_tokens > 0) {
                    let now = self.shell.clock.now();
                    self.following.pulled(now, standby.destination, self.streams.pulled());
                }
                true
            }
            // Of no move: carried out before.
            Output::AskPlacement(_)
            | Output::PlaceAlone(_)
            | Output::Start { .. }
            | Output::Cancel { .. }
            | Output::Prompt { .. }
            | Output::Text { .. }
            | Output::Done { .. }
            | Output::Failed(_)
            | Output::Moved { .. } => false,
        }
    }

    fn start(&mut self, worker: PeerId, start: JobStart) {
        debug!(worker = %worker.short(), epoch = %start.epoch, "starts");
        self.outbox.push(GenerationEvent::Placed { worker });
        self.streams.start(&self.shell.workers, worker, start);
    }

    /// Closing the stream is the cancel.
    fn cancel(&mut self, worker: PeerId, epoch: Epoch) {
        debug!(worker = %worker.short(), %epoch, "cancels");
        self.streams.close_worker(epoch);
    }

    fn text(&mut self, index: u32, text: String) {
        if self.particulars.first_token.is_none() {
            self.particulars.first_token = Some(self.shell.clock.now());
        }
        self.shell.records.count_tokens(self.machine.spec().request, index.saturating_add(1));
        self.outbox.push(GenerationEvent::Text(text));
    }

    fn fail(&mut self, failure: Failure) {
        info!(reason = %failure, "failed");
        self.particulars.error = Some(failure.message.clone());
        self.last = Some(GenerationEvent::Failed(failure));
    }

    fn shut_down(&mut self) {
        self.machine.handle(self.shell.clock.now(), Input::ClientGone);
        self.carry_out();
        self.fail(Failure::shutting_down());
    }

    fn close(&mut self) -> ExplainReply {
        self.streams.close_all();
        self.particulars.ended = Some(self.shell.clock.now());
        let record = self.particulars.record(&self.machine, self.following.records());
        self.shell.records.end(record.clone());
        record
    }
}

fn spec_of(shell: &Shell, request: GenerationRequest) -> RequestSpec {
    let GenerationRequest { request, model, input, sampling, max_tokens, stop } = request;
    let prompt_tokens_estimate = match &input {
        JobInput::Chat { messages_json } => prompt_tokens(messages_json.len()),
        JobInput::Text { prompt } => prompt_tokens(prompt.len()),
        JobInput::Tokens { prompt, .. } => u32::try_from(prompt.len()).unwrap_or(u32::MAX),
    };
    let expected_output_tokens = expected(&shell.lengths.estimate(model, prompt_tokens_estimate), max_tokens);
    RequestSpec { request, model, input, sampling, max_tokens, stop, prompt_tokens_estimate, expected_output_tokens }
}

/// How long running requests may take to hear their last word when the agent stops.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);
