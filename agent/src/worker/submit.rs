//! From a job's first words to a sequence in the engine: the model is loaded where another one (or none) is.

use std::time::Duration;

use idlewild_engine::{EngineError, EngineJob, EngineStream, ModelFile};
use idlewild_protocol::{JobEvent, JobFailure, JobRequest, JobStart};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::early::Early;
use super::gate::{Gate, shut};
use super::job::End;
use super::{Worker, WorkerEnd};

/// Proof of life while a model is loaded; origins give up after 3.5 s of silence.
const LOADING_SIGN: Duration = Duration::from_secs(1);

/// As what the engine takes a job.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    /// It draws tokens.
    Work,
    /// It draws none yet, and somebody waits for it.
    GetReady {
        /// The first position that it is not to evaluate, since it will be pulled.
        expect: Option<u32>,
    },
    /// It draws none yet, and nobody waits for it.
    StandBy {
        /// The first position that it is not to evaluate, since it will be pulled.
        expect: Option<u32>,
    },
}

/// Loads the model and hands the job to the engine. Gives what the origin said
/// meanwhile, too.
pub(super) async fn begin(
    worker: &Worker,
    (line, gate): (&mut WorkerEnd, &mut watch::Receiver<Gate>),
    start: JobStart,
    how: How,
) -> Result<(EngineStream, Vec<JobRequest>), End> {
    let mut epoch = start.epoch;
    let engine_job = EngineJob {
        model: start.model,
        input: start.input,
        sampling: start.sampling,
        max_tokens: start.max_tokens,
        stop: start.stop,
    };
    let submitted = submit(worker, engine_job, how);
    tokio::pin!(submitted);
    let mut sign = interval(LOADING_SIGN);
    sign.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sign.reset();
    let mut early = Early::new(worker.context_tokens_max());
    loop {
        tokio::select! {
            biased;
            shut = shut(gate) => return Err(End::Shut(shut)),
            word = line.next() => match word {
                Ok(JobRequest::Cancel) | Err(_) => return Err(End::Gone),
                Ok(word) => {
                    // From a take-over on its origin hears of this epoch only.
                    if let JobRequest::TakeOver { epoch: taken, .. } = word {
                        epoch = taken;
                    }
                    early.hear(word).map_err(End::Failed)?;
                }
            },
            submitted = &mut submitted => return submitted.map(|stream| (stream, early.into_words())).map_err(End::Failed),
            _ = sign.tick() => {
                let alive = JobEvent::Prefilled { epoch, done: 0, total: 0 };
                tokio::select! {
                    biased;
                    shut = shut(gate) => return Err(End::Shut(shut)),
                    sent = line.send(alive) => sent.map_err(|_| End::Gone)?,
                }
            }
        }
    }
}

/// Loads and submits. Another job may load another model in between: then there is no room here, and the origin asks
/// elsewhere. An option does not take the place of another model that is used.
async fn submit(worker: &Worker, job: EngineJob, how: How) -> Result<EngineStream, JobFailure> {
    let file = worker.models.file(job.model).await.map_err(JobFailure::Model)?;
    let file = ModelFile { doubles_at: worker.loads.doubles_at(job.model), ..file };
    worker.loads.job_begins(job.model);
    if let Some(why) = worker.no_room_for(job.model) {
        warn!(why, "a model is not loaded");
        return Err(JobFailure::Model(why));
    }
    let was_verified = file.verify;
    let loaded = match how {
        How::Work | How::GetReady { .. } => worker.engine.load(file).await,
        How::StandBy { .. } => worker.engine.load_if_free(file).await,
    };
    loaded.map_err(|error| failure_of(&error))?;
    if was_verified {
        worker.models.confirm(job.model);
    }
    let submitted = match how {
        How::Work => worker.engine.submit(job).await,
        How::GetReady { expect } => worker.engine.get_ready(job, expect).await,
        How::StandBy { expect } => worker.engine.prepare(job, expect).await,
    };
    submitted.map_err(|error| failure_of(&error))
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
