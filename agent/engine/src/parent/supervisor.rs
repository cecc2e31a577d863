//! Keeps a child alive, and a model in it; hands jobs in and events out.
//!
//! ```text
//!              load, submit                 loaded                    last handle dropped, stop
//! absent ----------------------> loading ------------> ready ----------------------------------> absent
//!    ^                             ^  | died             | died
//!    | died too often              |  v                  v
//!    '------------------------- backing off <------------'      (a model that was loaded is loaded again by itself)
//! ```
//!
//! The supervisor never waits for the child: commands are queued with room for every cancellation, and each stream's
//! queue is as long as its sequence can have events.

mod loading;
mod reporting;
mod telling;

use std::collections::BTreeMap;
use std::time::Duration;

use idlewild_protocol::{JobFailure, Message};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Request;
use super::backoff::{Backoff, WELL_AFTER};
use super::commands::{Desk, Ledger};
use super::link::{Link, LinkEvent, Place};
use super::spawner::Spawner;
use super::streams::Streams;
use crate::config::Limits;
use crate::handle::Told;
use crate::job::{Beginning, SequenceId};
use crate::messages::{ChildStats, EngineCommand, EngineEvent};
use crate::{
    EngineConfig, EngineError, EngineJob, EngineNotice, EngineStats, EngineStream, LoadedModel, ModelFile,
    SequenceEvent,
};

type LoadReply = oneshot::Sender<Result<LoadedModel, EngineError>>;

/// How often streams that wait for a model to be loaded show that they are alive.
const PROOF_OF_LIFE: Duration = Duration::from_secs(1);

/// Who waits for the load in progress.
#[derive(Debug, Default)]
struct Loading {
    replies: Vec<LoadReply>,
    /// The child died before and gets its model back.
    is_restart: bool,
}

pub(super) struct Supervisor {
    config: EngineConfig,
    /// Of the configuration, asked once: to count the cores takes as long as to pass on a token.
    limits: Limits,
    place: Place,
    spawner: Option<Spawner>,
    link: Option<Link>,
    /// The model that is loaded, being loaded, or to be loaded again.
    wanted: Option<ModelFile>,
    loading: Option<Loading>,
    loaded: Option<LoadedModel>,
    /// A load of another model, which waits until no sequence runs.
    next_load: Option<(ModelFile, LoadReply)>,
    streams: Streams,
    /// Jobs that wait until the model is loaded.
    queued: BTreeMap<SequenceId, (EngineJob, Beginning)>,
    /// Where commands to sequences come in.
    desk: Desk,
    /// Commands to sequences that the child has not answered yet.
    ledger: Ledger,
    backoff: Backoff,
    restart_at: Option<Instant>,
    ready_since: Option<Instant>,
    child: ChildStats,
    restarts: u32,
    outlets: Outlets,
}

/// The other ends of what the handles hold.
pub(super) struct Outlets {
    pub(super) stats: watch::Sender<EngineStats>,
    pub(super) notices: mpsc::Sender<EngineNotice>,
    pub(super) halted: watch::Receiver<bool>,
}

/// What woke the supervisor.
enum Wake {
    Request(Request),
    NoHandles,
    Cancelled(SequenceId),
    Told(Told),
    Link(LinkEvent),
    Restart,
    Halt,
    ProveLife,
}

impl Supervisor {
    pub(super) fn new(config: EngineConfig, place: Place, outlets: Outlets) -> Self {
        let limits = config.limits();
        let streams = Streams::new(limits.context_tokens);
        Self {
            config,
            limits,
            place,
            spawner: None,
            link: None,
            wanted: None,
            loading: None,
            loaded: None,
            next_load: None,
            streams,
            queued: BTreeMap::new(),
            desk: Desk::default(),
            ledger: Ledger::default(),
            backoff: Backoff::default(),
            restart_at: None,
            ready_since: None,
            child: ChildStats::default(),
            restarts: 0,
            outlets,
        }
    }

    /// Serves handles until the last one is dropped; the child dies with it.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut ticks = interval(PROOF_OF_LIFE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut halted = self.outlets.halted.clone();
        loop {
            let restart_at = self.restart_at;
            let takes_commands = self.takes_commands();
            let wake = tokio::select! {
                id = self.streams.cancelled() => Wake::Cancelled(id),
                event = next_event(&mut self.link) => Wake::Link(event),
                told = self.desk.next(), if takes_commands => Wake::Told(told),
                request = requests.recv() => request.map_or(Wake::NoHandles, Wake::Request),
                () = sleep_until(restart_at.unwrap_or_else(Instant::now)), if restart_at.is_some() => Wake::Restart,
                _ = ticks.tick(), if !self.queued.is_empty() => Wake::ProveLife,
                Ok(()) = halted.changed() => Wake::Halt,
            };
            match wake {
                Wake::Request(request) => self.serve(request).await,
                Wake::NoHandles => break,
                Wake::Cancelled(id) => self.cancel(id).await,
                Wake::Told(told) => self.tell(told),
                Wake::Link(LinkEvent::Event(event)) => self.hear(event).await,
                Wake::Link(LinkEvent::Exited(how)) => self.lose(&how),
                Wake::Restart => self.restart().await,
                Wake::Halt => self.halt().await,
                Wake::ProveLife => self.streams.prove_life(self.queued.keys()),
            }
            self.publish();
        }
        self.stop().await;
    }

    async fn serve(&mut self, request: Request) {
        match request {
            Request::Load { file, urgency, reply } => self.load(file, urgency, reply).await,
            Request::Submit { job, beginning, reply } => {
                let _ = reply.send(self.submit(*job, beginning).await);
            }
            Request::Unload { reply } => {
                self.unload();
                let _ = reply.send(());
            }
            Request::Stop { reply } => {
                let was_there = self.stop().await;
                self.publish();
                let _ = reply.send(was_there);
            }
        }
    }

    async fn submit(&mut self, job: EngineJob, beginning: Beginning) -> Result<EngineStream, EngineError> {
        let file = self.wanted.clone().ok_or(EngineError::NoModel)?;
        if file.id != job.model {
            return Err(EngineError::OtherModel);
        }
        self.check_pause()?;
        if self.loaded.is_none() && self.is_halted() {
            return Err(EngineError::Stopped);
        }
        let has_room = self.link.as_ref().is_none_or(Link::has_room);
        if self.waiting_load().is_some() || !has_room {
            return Err(EngineError::Busy);
        }
        let (id, stream) = self.streams.open(&self.desk, beginning.role)?;
        let command = EngineCommand::Submit { id, job, beginning };
        if command.to_bytes().is_err() {
            self.streams.forget(id);
            return Err(EngineError::TooLarge);
        }
        if self.loaded.is_some() {
            self.send(command);
        } else if let EngineCommand::Submit { id, job, beginning } = command {
            self.queued.insert(id, (job, beginning));
            if self.loading.is_none() {
                self.begin_load(file, Loading::default()).await;
            }
        }
        Ok(stream)
    }

    async fn cancel(&mut self, id: SequenceId) {
        // One that is over on this side is so on the other.
        if self.streams.forget(id) {
            self.drop_sequence(id);
        }
        self.begin_next_load().await;
    }

    /// The sequence is wanted no more, wherever it is.
    fn drop_sequence(&mut self, id: SequenceId) {
        if self.queued.remove(&id).is_none() && self.loaded.is_some() {
            self.send(EngineCommand::Cancel(id));
        }
    }

    async fn hear(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Loaded(model) => self.become_ready(&model),
            EngineEvent::LoadFailed(failure) => self.fail_load(&EngineError::Load(failure)),
            EngineEvent::Stats(stats) => self.child = stats,
            EngineEvent::Obeyed => self.ledger.obeyed(),
            EngineEvent::Exported { ticket, outcome } => self.ledger.exported(ticket, outcome),
            EngineEvent::Sequence { id, event } => {
                if matches!(event, SequenceEvent::Finished { .. }) {
                    self.backoff.reset();
                }
                if !self.streams.pass_on(id, event) {
                    return;
                }
            }
        }
        self.begin_next_load().await;
    }

    /// The child died unasked: its sequences fail, and it comes back after a pause if it had a model.
    fn lose(&mut self, how: &str) {
        let pid = self.link.take().and_then(|link| link.pid);
        self.restarts += 1;
        if self.ready_since.take().is_some_and(|since| since.elapsed() >= WELL_AFTER) {
            self.backoff.reset();
        }
        let pause = self.backoff.died();
        let was_restart = self.loading.as_ref().is_some_and(|loading| loading.is_restart);
        let file = self.wanted.clone().filter(|_| self.loaded.is_some() || was_restart);
        if self.loading.is_some() {
            self.fail_load(&EngineError::Exited(how.to_owned()));
        }
        self.streams.end_all(&JobFailure::Engine(how.to_owned()));
        self.reset_child();
        self.wanted = file;
        self.restart_at = pause.map(|pause| Instant::now() + pause);
        let restart_in = pause.filter(|_| self.wanted.is_some());
        tracing::warn!(pid, how, ?restart_in, "the engine died");
        self.publish();
        self.notify(EngineNotice::Exited { pid, how: how.to_owned(), restart_in });
        if pause.is_none() {
            self.notify(EngineNotice::GaveUp);
        }
        if let Some((_, reply)) = self.next_load.take() {
            let _ = reply.send(Err(EngineError::Exited(how.to_owned())));
        }
    }

    fn unload(&mut self) {
        self.streams.end_all(&JobFailure::Leaving);
        self.fail_load_quietly();
        self.wanted = None;
        self.loaded = None;
        self.restart_at = None;
        self.ledger.end_exports();
        if self.link.is_some() {
            self.send(EngineCommand::Unload);
        }
    }

    /// Whether there was a child.
    async fn stop(&mut self) -> bool {
        self.streams.end_all(&JobFailure::Leaving);
        self.fail_load_quietly();
        self.restart_at = None;
        let link = self.link.take();
        let was_there = link.is_some();
        if let Some(link) = link {
            let pid = link.pid;
            link.kill().await;
            tracing::info!(pid, "the engine was stopped");
        }
        self.reset_child();
        was_there
    }

    fn reset_child(&mut self) {
        self.loaded = None;
        self.queued.clear();
        self.ledger = Ledger::default();
        self.ready_since = None;
        self.child = ChildStats::default();
    }

    fn send(&mut self, command: EngineCommand) {
        let Some(link) = &self.link else { return };
        if link.commands.try_send(command).is_err() {
            // Closed: the child is dying, and its exit is the next event. Never full: see `Link::has_room`.
            tracing::debug!("a command was not taken");
        }
    }
}

/// The next event of the child; never while there is none.
async fn next_event(link: &mut Option<Link>) -> LinkEvent {
    match link {
        Some(link) => link.events.recv().await.unwrap_or_else(|| LinkEvent::Exited("its pipe was closed".to_owned())),
        None => std::future::pending().await,
    }
}
