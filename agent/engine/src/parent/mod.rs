//! The agent's side: a handle, and the supervisor that keeps a child alive behind it.

mod backoff;
mod commands;
mod link;
mod spawner;
mod streams;
mod supervisor;

use tokio::sync::{mpsc, oneshot, watch};

use crate::job::{Beginning, Role};
use crate::{EngineConfig, EngineError, EngineJob, EngineNotice, EngineStats, EngineStream, LoadedModel, ModelFile};
use link::Place;
use supervisor::{Outlets, Supervisor};

/// Requests from handles that may wait for the supervisor, which never waits long itself.
const REQUESTS_MAX: usize = 64;

/// Notices that may wait to be read. A later one is dropped when nobody reads.
const NOTICES_MAX: usize = 64;

/// What a handle asks of the supervisor.
#[derive(Debug)]
enum Request {
    Load { file: ModelFile, urgency: Urgency, reply: oneshot::Sender<Result<LoadedModel, EngineError>> },
    Unload { reply: oneshot::Sender<()> },
    Submit { job: Box<EngineJob>, beginning: Beginning, reply: oneshot::Sender<Result<EngineStream, EngineError>> },
    Stop { reply: oneshot::Sender<bool> },
}

/// Whether somebody waits for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// A request: standbys make room for it, and it waits for the others to end.
    Request,
    /// An option: it waits for nobody, and nobody makes room for it.
    Option,
}

/// A handle to the engine. Clones are cheap and speak to the same child; when the last one goes, so does the child.
#[derive(Debug, Clone)]
pub struct Engine {
    requests: mpsc::Sender<Request>,
    stats: watch::Receiver<EngineStats>,
    /// Goes to the child past the supervisor: nothing may stand in its way.
    halt: watch::Sender<bool>,
}

impl Engine {
    /// An engine in a child process, started when first asked for. Must be called inside a tokio runtime.
    pub fn start(config: EngineConfig) -> (Self, mpsc::Receiver<EngineNotice>) {
        Self::supervise(config, Place::Process)
    }

    /// The same on a thread of this process: for tests, since a crash of llama.cpp would be ours.
    pub fn in_process(config: EngineConfig) -> (Self, mpsc::Receiver<EngineNotice>) {
        Self::supervise(config, Place::Thread)
    }

    fn supervise(config: EngineConfig, place: Place) -> (Self, mpsc::Receiver<EngineNotice>) {
        let (requests, incoming) = mpsc::channel(REQUESTS_MAX);
        let (notices, notices_out) = mpsc::channel(NOTICES_MAX);
        let (stats, stats_out) = watch::channel(EngineStats { slots: config.limits().slots, ..EngineStats::default() });
        let (halt, halted) = watch::channel(false);
        tokio::spawn(Supervisor::new(config, place, Outlets { stats, notices, halted }).run(incoming));
        (Self { requests, stats: stats_out, halt }, notices_out)
    }

    /// Loads a model, and a child to hold it. The same model again costs nothing; another one waits until no sequence
    /// runs, and meanwhile no job is taken for the old one. Standbys of the old one fail with `JobFailure::Busy` at once:
    /// an option holds nobody up.
    pub async fn load(&self, file: ModelFile) -> Result<LoadedModel, EngineError> {
        self.load_as(file, Urgency::Request).await
    }

    /// The same for a standby to come: another model is loaded only where no sequence exists and none is being loaded;
    /// else `EngineError::Busy`.
    pub async fn load_if_free(&self, file: ModelFile) -> Result<LoadedModel, EngineError> {
        self.load_as(file, Urgency::Option).await
    }

    async fn load_as(&self, file: ModelFile, urgency: Urgency) -> Result<LoadedModel, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Request::Load { file, urgency, reply }).await?;
        answer.await.unwrap_or(Err(EngineError::Stopped))
    }

    /// Gives the model's memory back and forgets the model; the child stays. Sequences fail with `JobFailure::Leaving`.
    pub async fn unload(&self) {
        let (reply, answer) = oneshot::channel();
        if self.ask(Request::Unload { reply }).await.is_ok() {
            let _ = answer.await;
        }
    }

    /// Runs a job on the loaded model. Where the child was stopped, or died and the pause is over, it is started and
    /// the model loaded again first. Whether the job fits is told by the stream.
    pub async fn submit(&self, job: EngineJob) -> Result<EngineStream, EngineError> {
        self.begin(job, Role::Worker.into()).await
    }

    /// Makes a standby: a sequence that takes a slot and KV room as one that runs, evaluates all of its ids
    /// (`JobInput::Tokens`; any other input fails with `JobFailure::BadInput`) but the last, and draws no token before
    /// [`crate::SequenceHandle::take_over`]. Jobs come first: a standby has no slot while one waits, and makes room for
    /// one that finds none, and for another model.
    ///
    /// `expect`: as [`crate::SequenceHandle::expect`] says, from the beginning.
    pub async fn prepare(&self, job: EngineJob, expect: Option<u32>) -> Result<EngineStream, EngineError> {
        self.begin(job, Beginning { role: Role::Standby, expect }).await
    }

    /// Makes a successor: a standby that somebody waits for. It has its turn among the jobs, reads as they do, and makes
    /// room for nobody.
    pub async fn get_ready(&self, job: EngineJob, expect: Option<u32>) -> Result<EngineStream, EngineError> {
        self.begin(job, Beginning { role: Role::Successor, expect }).await
    }

    /// Stops the computing of all sequences at once (the owner is back), in the middle of a step where the model can, or
    /// lets them go on where they were. Meanwhile exports and imports still work.
    ///
    /// A load ends at once as well, with its child and `EngineError::Stopped`: to check and to read a file and to warm up is
    /// work, and nothing of it is worth keeping. A later one waits until the engine may compute, or is stopped.
    pub fn halt(&self, on: bool) {
        self.halt.send_replace(on);
    }

    async fn begin(&self, job: EngineJob, beginning: Beginning) -> Result<EngineStream, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Request::Submit { job: Box::new(job), beginning, reply }).await?;
        answer.await.unwrap_or(Err(EngineError::Stopped))
    }

    /// The engine as it last reported.
    pub fn stats(&self) -> EngineStats {
        self.stats.borrow().clone()
    }

    /// Follows the reports: wakes on every change.
    pub fn watch_stats(&self) -> watch::Receiver<EngineStats> {
        self.stats.clone()
    }

    /// The child's process id, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.stats.borrow().pid
    }

    /// Kills the child and waits until it is gone: its memory is free then. Sequences fail with `JobFailure::Leaving`.
    /// The next `load` or `submit` starts a new child. Whether there was one; without, it costs nothing.
    pub async fn stop(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        self.ask(Request::Stop { reply }).await.is_ok() && answer.await.unwrap_or(false)
    }

    async fn ask(&self, request: Request) -> Result<(), EngineError> {
        self.requests.send(request).await.map_err(|_| EngineError::Stopped)
    }
}
