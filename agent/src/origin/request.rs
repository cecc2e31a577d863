//! The task of one request: does what the machine says, tells it what happened.

use std::time::Duration;

use idlewild_coordinator::ownership::{Input, Limits, Output, RequestMachine, RequestSpec};
use idlewild_protocol::{Epoch, JobEvent, JobInput, JobStart, PeerId};
use tokio::sync::mpsc;
use tracing::{Instrument, debug, info, info_span, warn};

use super::lengths::prompt_tokens;
use super::outbox::Outbox;
use super::placer::Answer;
use super::pump::{NEWS, News, Pump};
use super::record::Particulars;
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
    pump: Option<Pump>,
    news_in: mpsc::Sender<(Epoch, News)>,
    news: mpsc::Receiver<(Epoch, News)>,
    answers_in: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
}

/// What woke the task.
enum Woke {
    Input(Input),
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
        let machine = RequestMachine::new(now, spec_of(&shell, request), Limits::default());
        let (news_in, news) = mpsc::channel(NEWS);
        let (answers_in, answers) = mpsc::channel(ANSWERS);
        let outbox = Outbox::new(events);
        Self { shell, machine, particulars, outbox, last: None, pump: None, news_in, news, answers_in, answers }
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
            match self.wake().await {
                Woke::Input(input) => {
                    self.pass_on_reading(&input);
                    self.machine.handle(self.shell.clock.now(), input);
                }
                Woke::Delivered => continue,
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
        // Events before the tick: after a pause of this machine what the worker did say counts before its silence.
        tokio::select! {
            biased;
            () = self.shell.stop.cancelled() => Woke::ShutDown,
            delivered = self.outbox.deliver() => if delivered { Woke::Delivered } else { Woke::ClientGone },
            Some((epoch, news)) = self.news.recv() => Woke::Input(match news {
                News::Event(event) => Input::Event { epoch, event },
                News::Lost(why) => Input::Lost { epoch, why },
            }),
            Some(answer) = self.answers.recv() => Woke::Input(self.take_answer(answer)),
            () = tick => Woke::Input(Input::Tick),
        }
    }

    /// How far the worker is with the prompt matters to nobody but the client.
    fn pass_on_reading(&mut self, input: &Input) {
        if let Input::Event { epoch, event: JobEvent::Prefilled { done, total, .. } } = input
            && self.pump.as_ref().is_some_and(|pump| pump.epoch == *epoch)
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
                    self.shell.lengths.saw(self.machine.spec().model, output_tokens);
                    self.last = Some(GenerationEvent::Done { reason, prompt_tokens, output_tokens });
                }
                Output::Failed(error) => self.fail(failure::explain(&error, self.machine.log().next_index())),
                Output::Moved { from, to, at_index, why } => {
                    info!(from = %from.short(), to = %to.short(), at_index, %why, "moved");
                    story_grew = true;
                    self.outbox.push(GenerationEvent::Moved { from, at_index });
                }
                // Planned moves have no messages yet, so that nobody proposes any and the machine says none of these.
                Output::StopAfter { .. }
                | Output::GoOn { .. }
                | Output::Prepare { .. }
                | Output::Forward { .. }
                | Output::Keep { .. }
                | Output::TakeOver { .. }
                | Output::Release { .. }
                | Output::Refused { .. }
                | Output::Standby { .. } => warn!("a planned move was asked for, and there is nothing to move with"),
            }
        }
        if story_grew {
            self.shell.records.update(self.particulars.record(&self.machine));
        }
    }

    fn start(&mut self, worker: PeerId, start: JobStart) {
        debug!(worker = %worker.short(), epoch = %start.epoch, "starts");
        self.outbox.push(GenerationEvent::Placed { worker });
        self.pump = Some(Pump::start(&self.shell.workers, worker, start, self.news_in.clone()));
    }

    /// Closing the stream is the cancel.
    fn cancel(&mut self, worker: PeerId, epoch: Epoch) {
        debug!(worker = %worker.short(), %epoch, "cancels");
        if self.pump.as_ref().is_some_and(|pump| pump.epoch == epoch) {
            self.pump = None;
        }
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
        self.pump = None;
        self.particulars.ended = Some(self.shell.clock.now());
        let record = self.particulars.record(&self.machine);
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
    let expected_output_tokens = shell.lengths.expect(model, max_tokens);
    RequestSpec { request, model, input, sampling, max_tokens, stop, prompt_tokens_estimate, expected_output_tokens }
}

/// How long running requests may take to hear their last word when the agent stops.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);
