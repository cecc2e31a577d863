//! One job: from its first words to its last event, its cancel, or the owner's return.
//!
//! ```text
//! Start ----------------> works: tokens --StopAfter--> parked --Cancel--> (end)
//! Start with a pull ----> gets ready -----^   ^  ^        '---GoOn---> works
//! Prepare --------------> stands by --TakeOver-'  '-- the gate shuts: says goodbye, lingers with its context
//! ```

mod getting_ready;

use std::convert::Infallible;
use std::time::Duration;

use idlewild_engine::{EngineStream, SequenceEvent};
use idlewild_protocol::{Epoch, JobEvent, JobFailure, JobRequest, JobStart, Pull, PullPart};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::contexts::{Kept, Whose};
use super::gate::{Gate, Shut, shut};
use super::patience::Standstill;
use super::pull::{Progress, Pulling};
use super::standing::{Role, Sent, ids_of, told};
use super::submit::How;
use super::{Part, Worker, WorkerEnd, submit};

/// How long a last word to the origin may take before the job ends without it.
const LAST_WORD: Duration = Duration::from_millis(500);

/// How a job ended on this side.
#[derive(Debug)]
pub(super) enum End {
    /// All was said.
    Complete,
    /// Nobody listens any more.
    Gone,
    /// The gate shut.
    Shut(Shut),
    /// It cannot go on.
    Failed(JobFailure),
}

/// Runs a job and says its last word.
pub(super) async fn run(worker: &Worker, mut line: WorkerEnd, start: JobStart, part: Part) {
    let (request, epoch, origin) = (start.request, start.epoch, line.origin());
    info!(%request, %epoch, ?part, origin = %origin.short(), "job began");
    let mut gate = worker.gate.clone();
    let is_open = *gate.borrow() == Gate::Open;
    let mut at = epoch;
    let end = if is_open {
        serve(worker, &mut line, &mut gate, (start, part), &mut at).await
    } else {
        End::Failed(JobFailure::Leaving)
    };
    info!(%request, epoch = %at, ?end, "job ended");
    let last = match end {
        End::Complete | End::Gone => return,
        End::Shut(Shut { cause, notice_ms }) => JobEvent::Leaving { epoch: at, cause, notice_ms },
        End::Failed(failure) => JobEvent::Failed { epoch: at, failure: failure.clipped() },
    };
    say_last(&mut line, last).await;
}

/// Tells an origin that there is no place for one more of its jobs.
pub(super) async fn turn_away(mut line: WorkerEnd, epoch: Epoch) {
    debug!(origin = %line.origin().short(), "an origin has too many jobs here");
    say_last(&mut line, JobEvent::Failed { epoch, failure: JobFailure::Busy }).await;
}

async fn say_last(line: &mut WorkerEnd, event: JobEvent) {
    if !matches!(timeout(LAST_WORD, line.send(event)).await, Ok(Ok(()))) {
        debug!("the origin does not take the last word");
    }
}

/// `at` is the epoch that events are of; it is raised when a standby takes over.
async fn serve(
    worker: &Worker,
    line: &mut WorkerEnd,
    gate: &mut watch::Receiver<Gate>,
    (start, part): (JobStart, Part),
    at: &mut Epoch,
) -> End {
    let (request, model) = (start.request, start.model);
    let pull = start.pull.and_then(|pull| worker.as_the_link_is(pull));
    let sent = ids_of(&start.input);
    let expect = pull.filter(|pull| pull.part == PullPart::Whole).map(|_| 0);
    let (how, role) = match (part, pull) {
        (Part::Standby, _) => (How::StandBy { expect }, Role::StandsBy),
        (Part::Worker, Some(_)) => (How::GetReady { expect }, Role::GetsReady { from_index: sent.generated }),
        (Part::Worker, None) => (How::Work, Role::Works),
    };
    let (stream, early) = match submit::begin(worker, (line, gate), start, how).await {
        Ok(begun) => begun,
        Err(end) => return end,
    };
    let handle = stream.handle();
    let (layout, kv_bytes_per_token) =
        worker.engine().model.map_or((None, 0), |loaded| (loaded.layout, loaded.kv_bytes_per_token));
    let whose = (line.origin(), request);
    let kept = worker.contexts.keep(whose, model, (layout, kv_bytes_per_token), handle.clone());
    Job {
        worker,
        line,
        gate,
        at,
        whose,
        stream,
        kept,
        role,
        pull,
        pulling: None,
        pull_until: None,
        sent,
        kv_bytes_per_token,
        held: 0,
        pulled: 0,
        has_slot: false,
        standstill: Standstill::new(Instant::now(), sent.generated),
    }
    .serve(early)
    .await
}

/// A job that the gate let in, with its sequence.
struct Job<'a> {
    worker: &'a Worker,
    line: &'a mut WorkerEnd,
    gate: &'a mut watch::Receiver<Gate>,
    at: &'a mut Epoch,
    whose: Whose,
    stream: EngineStream,
    kept: Kept,
    role: Role,
    /// What may be pulled, until that has begun.
    pull: Option<Pull>,
    pulling: Option<Pulling>,
    /// When that is not waited for any longer.
    pull_until: Option<Instant>,
    sent: Sent,
    kv_bytes_per_token: u32,
    /// Tokens that the sequence holds, by its last word.
    held: u32,
    /// Of those, the ones that were pulled.
    pulled: u32,
    has_slot: bool,
    standstill: Standstill,
}

/// What woke the job.
enum Woke {
    Told(JobRequest),
    Engine(SequenceEvent),
    Pull(Progress),
    OutOfPatience,
}

impl Job<'_> {
    /// Begins with the words that came while the model was loaded.
    async fn serve(mut self, early: Vec<JobRequest>) -> End {
        let Err(end) = self.work(early).await;
        match end {
            End::Shut(shut) => self.leave(shut).await,
            End::Complete | End::Gone | End::Failed(_) => end,
        }
    }

    async fn work(&mut self, early: Vec<JobRequest>) -> Result<Infallible, End> {
        early.into_iter().try_for_each(|word| self.obey(word))?;
        loop {
            match self.wake().await? {
                Woke::Told(word) => self.obey(word)?,
                Woke::Engine(event) => self.hear(event).await?,
                Woke::Pull(Progress::GoesOn) => self.show_life().await?,
                Woke::Pull(Progress::Over { is_all }) => self.have_pulled(is_all)?,
                Woke::OutOfPatience => self.wait_no_longer()?,
            }
        }
    }

    async fn wake(&mut self) -> Result<Woke, End> {
        let until = self.pull_until.into_iter().chain(self.parked_until()).min();
        let out_of_patience = async {
            match until {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let pull = async {
            match &mut self.pulling {
                Some(pulling) => pulling.progress().await,
                None => std::future::pending().await,
            }
        };
        // The gate first: what the owner's return costs is one step of the engine, whatever else is ready.
        tokio::select! {
            biased;
            shut = shut(self.gate) => Err(End::Shut(shut)),
            word = self.line.next() => match word {
                Ok(JobRequest::Cancel) | Err(_) => Err(End::Gone),
                Ok(word) => Ok(Woke::Told(word)),
            },
            event = self.stream.next() => match event {
                Some(event) => Ok(Woke::Engine(event)),
                None => Err(End::Failed(JobFailure::Engine("it went away".to_owned()))),
            },
            progress = pull => Ok(Woke::Pull(progress)),
            () = out_of_patience => Ok(Woke::OutOfPatience),
        }
    }

    /// What the origin says. Words that do not fit the role are passed over: they were overtaken on their way.
    fn obey(&mut self, word: JobRequest) -> Result<(), End> {
        let handle = self.stream.handle();
        self.standstill.heard(Instant::now());
        let said = match word {
            JobRequest::StopAfter { index } if self.role != Role::StandsBy => {
                self.standstill.stop_after(Some(index));
                handle.stop_after(index)
            }
            JobRequest::GoOn if self.role != Role::StandsBy => {
                self.standstill.stop_after(None);
                handle.go_on()
            }
            JobRequest::Offer { to } => {
                self.kept.offer(to);
                Ok(())
            }
            JobRequest::Forward { from_index, ids } if self.role == Role::StandsBy => {
                let end = from_index.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
                self.sent.generated = self.sent.generated.max(end);
                if let Some(pulling) = &self.pulling {
                    pulling.known(self.sent.all());
                }
                handle.extend(from_index, ids)
            }
            JobRequest::Keep { warm } if self.role == Role::StandsBy => {
                self.hurry(false);
                handle.pause(!warm)
            }
            JobRequest::CatchUp if self.role == Role::StandsBy => {
                self.hurry(true);
                handle.pause(false)
            }
            JobRequest::TakeOver { epoch, from_index } if self.role == Role::StandsBy => {
                info!(request = %self.whose.1, %epoch, from_index, lag = self.lag(), pulled = self.pulled, "takes over");
                *self.at = epoch;
                return self.take_over(from_index);
            }
            JobRequest::StopAfter { .. }
            | JobRequest::GoOn
            | JobRequest::Forward { .. }
            | JobRequest::Keep { .. }
            | JobRequest::CatchUp
            | JobRequest::TakeOver { .. }
            | JobRequest::Start(_)
            | JobRequest::Prepare(_)
            | JobRequest::Cancel => {
                debug!(request = %self.whose.1, role = ?self.role, "a word that does not fit");
                Ok(())
            }
        };
        told(said)
    }

    async fn hear(&mut self, event: SequenceEvent) -> Result<(), End> {
        let epoch = *self.at;
        let event = match event {
            SequenceEvent::Accepted { prompt } => {
                self.has_slot = true;
                self.begin_to_pull()?;
                JobEvent::Accepted { epoch, prompt }
            }
            SequenceEvent::Prefilled { done, total } => JobEvent::Prefilled { epoch, done, total },
            SequenceEvent::Held { tokens, pulled_tokens } => {
                (self.held, self.pulled) = (tokens, pulled_tokens);
                if let Some(pulling) = &self.pulling {
                    pulling.held(tokens);
                }
                self.look_whether_ready()?;
                let pulled_bytes = u64::from(pulled_tokens) * u64::from(self.kv_bytes_per_token);
                let held = JobEvent::Held { epoch, tokens, pulled_tokens, pulled_bytes };
                match self.role {
                    Role::StandsBy => held,
                    // Of a worker the first is for the record, the second for its client.
                    Role::Works | Role::GetsReady { .. } => {
                        if pulled_tokens > 0 {
                            self.say(held).await?;
                        }
                        JobEvent::Prefilled { epoch, done: tokens, total: self.sent.all() }
                    }
                }
            }
            SequenceEvent::Token { index, id, text } => {
                self.standstill.drew(Instant::now(), index);
                JobEvent::Token { epoch, index, id, text }
            }
            SequenceEvent::Finished { reason, text } => {
                self.say(JobEvent::Finished { epoch, reason, text }).await?;
                return Err(End::Complete);
            }
            SequenceEvent::Failed(failure) => return Err(End::Failed(failure)),
            SequenceEvent::ImportRefused { from, to, why } => {
                warn!(request = %self.whose.1, from, to, why, "a part of a KV cache is of no use");
                self.stop_pulling();
                return self.begin_to_work();
            }
            SequenceEvent::ExtendRefused { from_index, why } => {
                let why = format!("the ids from {from_index} on do not follow: {why}");
                return Err(End::Failed(JobFailure::Engine(why)));
            }
            SequenceEvent::TakeOverRefused { from_index, known } => {
                let why = format!("token {from_index} cannot be drawn: {known} ids of the answer are known");
                return Err(End::Failed(JobFailure::Engine(why)));
            }
        };
        self.say(event).await
    }

    /// When a worker that stands still is given up; none while it does not.
    fn parked_until(&self) -> Option<Instant> {
        let patience = self.worker.patience.parked;
        self.standstill.until(patience).filter(|_| self.role == Role::Works)
    }

    /// Whom it waits for says nothing.
    fn wait_no_longer(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if self.parked_until().is_some_and(|until| until <= now) {
            let why = format!(
                "it was told to stop, and its origin said nothing for {} s",
                self.worker.patience.parked.as_secs()
            );
            return Err(End::Failed(JobFailure::Engine(why)));
        }
        let is_enough = self.pull_until.take_if(|until| *until <= now).is_some();
        if is_enough { self.begin_to_work() } else { Ok(()) }
    }

    /// Sends to the origin; a slow one must not keep the engine busy after the gate has shut.
    async fn say(&mut self, event: JobEvent) -> Result<(), End> {
        tokio::select! {
            biased;
            shut = shut(self.gate) => Err(End::Shut(shut)),
            sent = self.line.send(event) => sent.map_err(|_| End::Gone),
        }
    }

    /// The gate has shut. A standby just goes. A worker says goodbye and keeps its context for the notice, so that another
    /// one can pull it: until the origin closes the stream.
    async fn leave(mut self, Shut { cause, notice_ms }: Shut) -> End {
        if self.role == Role::StandsBy || notice_ms == 0 {
            return End::Shut(Shut { cause, notice_ms });
        }
        self.stop_pulling();
        // It would compute again if the gate opened meanwhile, for nobody. An engine that is gone does not.
        self.stream.handle().pause(true).ok();
        say_last(self.line, JobEvent::Leaving { epoch: *self.at, cause, notice_ms }).await;
        let linger = async {
            loop {
                match self.line.next().await {
                    Ok(JobRequest::Offer { to }) => self.kept.offer(to),
                    Ok(JobRequest::Cancel) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        // At the notice's end the memory is the owner's.
        timeout(Duration::from_millis(u64::from(notice_ms)), linger).await.ok();
        End::Gone
    }
}
