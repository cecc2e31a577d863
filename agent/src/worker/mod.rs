//! Works for origins, here and elsewhere, while the owner is away.
//!
//! ```text
//! swarm (JobServer) or own origin --WorkerEnd--> job: gate open? --> models: file --> engine: load, submit
//!                                                 ^ events <---------------------------- stream
//! driver --Gate--> every job, and the keeper, who stops the engine
//! ```
//!
//! A context moves from worker to worker by `pull` at one end and `contexts` at the other: chunks of KV cache, from engine to
//! engine, on the swarm's bulk streams. What does not come is made from the ids.
//!
//! Deliberately absent: whom to work for, what to refuse by merit and when to move (placement and plans decide).

mod contexts;
mod early;
#[cfg(test)]
mod fake;
mod gate;
mod holders;
mod job;
mod keeper;
mod line;
mod loads;
mod patience;
mod pull;
mod room;
mod shares;
mod source;
mod standing;
mod submit;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use idlewild_engine::{Engine, EngineStats};
use idlewild_protocol::{ContextOpen, JobStart, ModelId, ModelLoad, PeerId, Pull, PullPart};
use idlewild_swarm::{ContextServer, PeerLink, Swarm};
use tokio::sync::watch;

pub use gate::{Gate, Shut};
pub use line::{LineClosed, OriginEnd, WorkerEnd, local_line};
pub use loads::Guess;
pub use room::{FreeRoom, MemoryRoom};
pub use source::{FileAnswer, ModelSource, OneModel, Reading, StoredModels};

use contexts::{Contexts, Whose};
use holders::Holders;
use loads::Loads;
use patience::Patience;
use pull::{SPLIT_BELOW_PHI, Source};
use shares::Shares;

use crate::store::RateRecord;

/// Takes jobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worker {
    engine: Engine,
    models: Arc<dyn ModelSource>,
    room: Arc<dyn MemoryRoom>,
    gate: watch::Receiver<Gate>,
    jobs: Arc<watch::Sender<u32>>,
    loads: Arc<Loads>,
    swarm: Swarm,
    contexts: Contexts,
    shares: Shares,
    holders: Holders,
    patience: Patience,
}

/// What a peer is asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The one that says the tokens.
    Worker,
    /// One that gets ready to.
    Standby,
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
        (models, room): (Arc<dyn ModelSource>, Arc<dyn MemoryRoom>),
        (gate, idle_stop): (watch::Receiver<Gate>, Duration),
        (guess, records): (Guess, &[RateRecord]),
        swarm: Swarm,
    ) -> Self {
        let jobs = Arc::new(watch::Sender::new(0));
        tokio::spawn(keeper::keep(engine.clone(), gate.clone(), jobs.subscribe(), idle_stop));
        let loads = Arc::new(Loads::new(guess, records));
        Self {
            engine,
            models,
            room,
            gate,
            jobs,
            loads,
            swarm,
            contexts: Contexts::default(),
            shares: Shares::default(),
            holders: Holders::default(),
            patience: Patience::default(),
        }
    }

    /// Runs a job on a task of its own. An origin that has as many here as may be is told that this peer is busy.
    pub fn take(&self, line: WorkerEnd, start: JobStart, part: Part) {
        // What the owner of this peer asks for is for its own machine to bear.
        let is_own = line.origin() == self.swarm.me();
        let place = self.shares.take((line.origin(), part), self.engine.stats().slots);
        if place.is_none() && !is_own {
            tokio::spawn(job::turn_away(line, start.epoch));
            return;
        }
        let worker = self.clone();
        tokio::spawn(async move {
            let (_place, _counted) = (place, Counted::new(&worker.jobs));
            let began = Instant::now();
            job::run(&worker, line, start, part).await;
            worker.loads.job_took(began.elapsed());
        });
    }

    /// What another peer says of its models; nothing where it is gone.
    pub fn heard(&self, peer: PeerId, models: &[ModelLoad]) {
        self.holders.heard(peer, models);
    }

    /// Forgets what peers have said that are not known any more.
    pub fn forget_strangers(&self, is_known: impl Fn(PeerId) -> bool) {
        self.holders.keep(is_known);
    }

    /// Answers a peer that pulls a context, on a task of its own.
    pub fn give(&self, context: ContextServer, open: ContextOpen) {
        tokio::spawn(self.contexts.clone().serve(context, open));
    }

    /// The pull, as the link to its holder suggests: one that carries many times what this peer prefills brings the whole
    /// context sooner than a share of it. None from ourselves: a worker that was here before holds what we would pull.
    fn as_the_link_is(&self, pull: Pull) -> Option<Pull> {
        if pull.holder == self.swarm.me() {
            return None;
        }
        let stats = self.engine.stats();
        let ends = stats.model.as_ref().zip(self.link(pull.holder));
        let kv_tps = ends.and_then(|(loaded, link)| kv_tps(&link, loaded.kv_bytes_per_token)).unwrap_or(0.0);
        let is_fast = kv_tps >= SPLIT_BELOW_PHI * f64::from(stats.prefill_tps) && stats.prefill_tps > 0.0;
        Some(Pull { part: if is_fast { PullPart::Whole } else { pull.part }, ..pull })
    }

    fn link(&self, to: PeerId) -> Option<PeerLink> {
        self.swarm.peers().into_iter().find(|link| link.peer == to)
    }

    /// What it takes to pull a context of so many tokens into the loaded model; none where contexts of it do not travel.
    fn pull_source(&self, (origin, request): Whose, pull: Pull, context_tokens: u32) -> Option<Source> {
        let stats = self.engine.stats();
        let loaded = stats.model?;
        let open = ContextOpen { origin, request, model: loaded.id, layout: loaded.layout? };
        let link = self.link(pull.holder);
        Some(Source {
            swarm: self.swarm.clone(),
            holder: pull.holder,
            open,
            part: pull.part,
            kv_bytes_per_token: loaded.kv_bytes_per_token,
            prefill_tps: f64::from(stats.prefill_tps),
            kv_tps: link.as_ref().and_then(|link| kv_tps(link, loaded.kv_bytes_per_token)),
            round_trip: link.map_or(Duration::ZERO, |link| Duration::from_micros(link.rtt_us.into())),
            steps: self.holders.steps(pull.holder, loaded.id, context_tokens),
            moved: self.contexts.moved().clone(),
        })
    }

    /// Why a model that is not loaded cannot be for lack of memory; none where it is, or fits, or nobody knows.
    fn no_room_for(&self, model: ModelId) -> Option<String> {
        if self.engine.stats().model.is_some_and(|loaded| loaded.id == model) {
            return None;
        }
        let info = self.models.list().into_iter().find(|info| info.id == model)?;
        // Without a file (the fake engine's) nothing is taken.
        let room = if info.size_bytes == 0 { None } else { self.room.free_bytes() };
        room::refusal(&info, self.loads.need_bytes(&info), room?)
    }

    /// There is so much memory for an engine, or nobody knows: what others are told of models that are not loaded.
    pub fn has_room(&self, room: Option<FreeRoom>) {
        self.loads.has_room(room);
    }

    /// Jobs that run.
    pub fn jobs_running(&self) -> u32 {
        *self.jobs.borrow()
    }

    /// Bytes of KV cache that this peer has sent and received since its start.
    pub fn moved_bytes(&self) -> u64 {
        self.contexts.moved().bytes()
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

    /// The same of the last model that was loaded, also where it is not any more: what a run leaves to the next.
    pub fn last_rates(&self) -> Option<RateRecord> {
        self.loads.last_record()
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

/// Tokens of a KV cache that a link carries to this peer in a second, where that is known.
fn kv_tps(link: &PeerLink, kv_bytes_per_token: u32) -> Option<f64> {
    Some(link.down_bytes_per_s? as f64 / f64::from(kv_bytes_per_token.max(1)))
}
