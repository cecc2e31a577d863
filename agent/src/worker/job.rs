//! One job: from its start to its last event, its cancel, or the owner's return.

use std::time::Duration;

use idlewild_engine::{EngineError, EngineJob, EngineStream, SequenceEvent};
use idlewild_protocol::{Epoch, JobEvent, JobFailure, JobRequest, JobStart};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info};

use super::gate::{Gate, Shut, shut};
use super::{Worker, WorkerEnd};

/// Proof of life while a model is loaded; origins give up after 3.5 s of silence.
const LOADING_SIGN: Duration = Duration::from_secs(1);

/// How long a last word to the origin may take before the job ends without it.
const LAST_WORD: Duration = Duration::from_millis(500);

/// How a job ended on this side.
#[derive(Debug)]
enum End {
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
pub(super) async fn run(worker: &Worker, mut line: WorkerEnd, start: JobStart) {
    let (request, epoch, origin) = (start.request, start.epoch, line.origin());
    info!(%request, %epoch, origin = %origin.short(), "job began");
    let mut gate = worker.gate.clone();
    let is_open = *gate.borrow() == Gate::Open;
    let end = if is_open {
        Job { worker, line: &mut line, gate: &mut gate, epoch }.serve(start).await
    } else {
        End::Failed(JobFailure::Leaving)
    };
    info!(%request, %epoch, ?end, "job ended");
    let last = match end {
        End::Complete | End::Gone => return,
        End::Shut(Shut { cause, notice_ms }) => JobEvent::Leaving { epoch, cause, notice_ms },
        End::Failed(failure) => JobEvent::Failed { epoch, failure: failure.clipped() },
    };
    if tokio::time::timeout(LAST_WORD, line.send(last)).await.is_err() {
        debug!(%request, %epoch, "origin does not take the last word");
    }
}

/// A job that the gate let in.
struct Job<'a> {
    worker: &'a Worker,
    line: &'a mut WorkerEnd,
    gate: &'a mut watch::Receiver<Gate>,
    epoch: Epoch,
}

impl Job<'_> {
    async fn serve(mut self, start: JobStart) -> End {
        let mut stream = match self.submit(start).await {
            Ok(stream) => stream,
            Err(end) => return end,
        };
        loop {
            // The gate first: what the owner's return costs is one step of the engine, whatever else is ready.
            let event = tokio::select! {
                biased;
                shut = shut(self.gate) => return End::Shut(shut),
                request = self.line.next() => match request {
                    Ok(JobRequest::Cancel) | Err(_) => return End::Gone,
                    Ok(JobRequest::Start(_)) => continue,
                },
                event = stream.next() => event,
            };
            let Some(event) = event else { return End::Failed(JobFailure::Engine("it went away".to_owned())) };
            let is_last = event.is_last();
            let event = match event {
                SequenceEvent::Failed(failure) => return End::Failed(failure),
                SequenceEvent::Accepted { .. }
                | SequenceEvent::Prefilled { .. }
                | SequenceEvent::Token { .. }
                | SequenceEvent::Finished { .. } => self.event_of(event),
            };
            if let Err(end) = self.say(event).await {
                return end;
            }
            if is_last {
                return End::Complete;
            }
        }
    }

    /// Sends to the origin; a slow one must not keep the engine busy after the gate has shut.
    async fn say(&mut self, event: Option<JobEvent>) -> Result<(), End> {
        let Some(event) = event else { return Ok(()) };
        tokio::select! {
            biased;
            shut = shut(self.gate) => Err(End::Shut(shut)),
            sent = self.line.send(event) => sent.map_err(|_| End::Gone),
        }
    }

    fn event_of(&self, event: SequenceEvent) -> Option<JobEvent> {
        let epoch = self.epoch;
        match event {
            SequenceEvent::Accepted { prompt } => Some(JobEvent::Accepted { epoch, prompt }),
            SequenceEvent::Prefilled { done, total } => Some(JobEvent::Prefilled { epoch, done, total }),
            SequenceEvent::Token { index, id, text } => Some(JobEvent::Token { epoch, index, id, text }),
            SequenceEvent::Finished { reason, text } => Some(JobEvent::Finished { epoch, reason, text }),
            SequenceEvent::Failed(_) => None,
        }
    }

    /// Loads the model where another (or none) is loaded, and hands the job to the engine.
    async fn submit(&mut self, start: JobStart) -> Result<EngineStream, End> {
        let engine_job = EngineJob {
            model: start.model,
            input: start.input,
            sampling: start.sampling,
            max_tokens: start.max_tokens,
            stop: start.stop,
        };
        let submitted = submit(self.worker, engine_job);
        tokio::pin!(submitted);
        let mut sign = interval(LOADING_SIGN);
        sign.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sign.reset();
        loop {
            tokio::select! {
                biased;
                shut = shut(self.gate) => return Err(End::Shut(shut)),
                request = self.line.next() => match request {
                    Ok(JobRequest::Cancel) | Err(_) => return Err(End::Gone),
                    Ok(JobRequest::Start(_)) => {}
                },
                submitted = &mut submitted => return submitted.map_err(End::Failed),
                _ = sign.tick() => {
                    let alive = JobEvent::Prefilled { epoch: self.epoch, done: 0, total: 0 };
                    self.line.send(alive).await.map_err(|_| End::Gone)?;
                }
            }
        }
    }
}

/// Loads and submits. Another job may load another model in between: then there is no room here, and the origin asks
/// elsewhere.
async fn submit(worker: &Worker, job: EngineJob) -> Result<EngineStream, JobFailure> {
    let file = worker.models.file(job.model).await.map_err(JobFailure::Model)?;
    worker.loads.job_begins(job.model);
    let was_verified = file.verify;
    worker.engine.load(file).await.map_err(|error| failure_of(&error))?;
    if was_verified {
        worker.models.confirm(job.model);
    }
    worker.engine.submit(job).await.map_err(|error| failure_of(&error))
}

fn failure_of(error: &EngineError) -> JobFailure {
    match error {
        EngineError::Load(failure) => JobFailure::Model(failure.to_string()),
        EngineError::NoModel => JobFailure::Model(error.to_string()),
        EngineError::OtherModel | EngineError::Busy => JobFailure::Busy,
        EngineError::Stopped => JobFailure::Leaving,
        EngineError::TooLarge => JobFailure::BadInput(error.to_string()),
        EngineError::BackingOff { .. } => JobFailure::Restarting,
        EngineError::Spawn(_) | EngineError::Exited(_) => JobFailure::Engine(error.to_string()),
    }
}
