//! Works for origins, here and elsewhere, while the owner is away.
//!
//! ```text
//! swarm (JobServer) or own origin --WorkerEnd--> job: gate open? --> models: file --> engine: load, submit
//!                                                 ^ events <---------------------------- stream
//! driver --Gate--> every job, and the keeper, who stops the engine
//! ```
//!
//! Deliberately absent: whom to work for and what to refuse by merit (placement decides), contexts that move (later).

mod gate;
mod job;
mod keeper;
mod line;
mod loads;
mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use idlewild_engine::{Engine, EngineStats};
use idlewild_protocol::{JobStart, ModelLoad};
use tokio::sync::watch;

pub use gate::{Gate, Shut};
pub use line::{LineClosed, OriginEnd, WorkerEnd, local_line};
pub use loads::Guess;
pub use source::{FileAnswer, ModelSource, OneModel, Reading, StoredModels};

use loads::Loads;

use crate::store::RateRecord;

/// Takes jobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worker {
    engine: Engine,
    models: Arc<dyn ModelSource>,
    gate: watch::Receiver<Gate>,
    jobs: Arc<watch::Sender<u32>>,
    loads: Arc<Loads>,
}

/// One running job, counted as long as it lives.
struct Counted(Arc<watch::Sender<u32>>);

impl Counted {
    fn new(jobs: &Arc<watch::Sender<u32>>) -> Self {
        jobs.send_modify(|running| *running += 1);
        Self(Arc::clone(jobs))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Worker {
    /// A worker that knows what earlier runs measured, and the task that stops its engine (spawned here; it ends with the gate's sender).
    pub fn start(
        engine: Engine,
        models: Arc<dyn ModelSource>,
        gate: watch::Receiver<Gate>,
        idle_stop: Duration,
        (guess, records): (Guess, &[RateRecord]),
    ) -> Self {
        let jobs = Arc::new(watch::Sender::new(0));
        tokio::spawn(keeper::keep(engine.clone(), gate.clone(), jobs.subscribe(), idle_stop));
        Self { engine, models, gate, jobs, loads: Arc::new(Loads::new(guess, records)) }
    }

    /// Runs a job on a task of its own.
    pub fn take(&self, line: WorkerEnd, start: JobStart) {
        let worker = self.clone();
        tokio::spawn(async move {
            let _counted = Counted::new(&worker.jobs);
            let began = Instant::now();
            job::run(&worker, line, start).await;
            worker.loads.job_took(began.elapsed());
        });
    }

    /// Jobs that run.
    pub fn jobs_running(&self) -> u32 {
        *self.jobs.borrow()
    }

    /// Follows the number of running jobs.
    pub fn watch_jobs(&self) -> watch::Receiver<u32> {
        self.jobs.subscribe()
    }

    /// The engine as it last reported.
    pub fn engine(&self) -> EngineStats {
        self.engine.stats()
    }

    /// Follows the engine's reports.
    pub fn watch_engine(&self) -> watch::Receiver<EngineStats> {
        self.engine.watch_stats()
    }

    /// What each model of this peer would cost a request, the loaded one first.
    pub fn loads(&self) -> Vec<ModelLoad> {
        self.loads.of(&self.engine.stats(), &self.models.list())
    }

    /// Ends the engine, with whatever it still does.
    pub async fn stop(&self) {
        self.engine.stop().await;
    }

    /// What is measured of the loaded model, for later runs; none where none is loaded.
    pub fn rates(&self) -> Option<RateRecord> {
        self.loads.record(self.engine.stats().model?.id)
    }

    /// The longest context of a request here, in tokens, whatever the model was made for.
    pub fn context_tokens_max(&self) -> u32 {
        self.loads.context_tokens_max()
    }

    /// Reads the models on disk anew; resolves when the list is the new one.
    pub fn reread_models(&self) -> impl Future<Output = ()> + Send + 'static {
        let models = Arc::clone(&self.models);
        async move { models.reread().await }
    }

    /// Where models come from.
    pub fn models(&self) -> &dyn ModelSource {
        self.models.as_ref()
    }
}
