//! A child with a model in it: started, loaded, loaded again after a death, replaced by another.

use idlewild_protocol::JobFailure;
use tokio::time::Instant;

use super::super::Urgency;
use super::super::link::{Link, Place};
use super::super::spawner::Spawner;
use super::{LoadReply, Loading, Supervisor};
use crate::messages::EngineCommand;
use crate::{EngineError, EngineNotice, LoadedModel, ModelFile};

impl Supervisor {
    pub(super) async fn load(&mut self, file: ModelFile, urgency: Urgency, reply: LoadReply) {
        if reply.is_closed() {
            // Whoever asked has given up.
            return;
        }
        if self.wanted.as_ref().is_some_and(|wanted| wanted.id == file.id) {
            if let Some(loading) = &mut self.loading {
                loading.replies.push(reply);
                return;
            }
            if let Some(loaded) = &self.loaded {
                let _ = reply.send(Ok(loaded.clone()));
                return;
            }
        }
        if let Err(error) = self.check_pause() {
            let _ = reply.send(Err(error));
        } else if self.may_load() {
            self.begin_load(file, Loading { replies: vec![reply], is_restart: false }).await;
        } else if urgency == Urgency::Request && self.waiting_load().is_none() {
            self.next_load = Some((file, reply));
            self.end_standbys();
            self.begin_next_load().await;
        } else {
            let _ = reply.send(Err(EngineError::Busy));
        }
    }

    pub(super) fn check_pause(&self) -> Result<(), EngineError> {
        self.restart_at.map_or(Ok(()), |at| {
            Err(EngineError::BackingOff { retry_in: at.saturating_duration_since(Instant::now()) })
        })
    }

    pub(super) async fn begin_load(&mut self, file: ModelFile, loading: Loading) {
        self.loaded = None;
        self.wanted = Some(file.clone());
        self.loading = Some(loading);
        match self.ensure_link().await {
            Ok(()) => self.send(EngineCommand::Load(file)),
            Err(error) if self.loading.as_ref().is_some_and(|loading| loading.is_restart) => {
                self.lose(&format!("it could not be started: {error}"));
            }
            Err(error) => self.fail_load(&EngineError::Spawn(error.to_string())),
        }
        self.publish();
    }

    pub(super) async fn ensure_link(&mut self) -> std::io::Result<()> {
        if self.link.is_some() {
            return Ok(());
        }
        let halted = self.outlets.halted.clone();
        let link = match self.place {
            Place::Thread => Link::to_thread(halted)?,
            Place::Process => {
                let spawner = match self.spawner.take() {
                    Some(spawner) => spawner,
                    None => Spawner::new(&self.config)?,
                };
                let child = spawner.spawn().await;
                self.spawner = Some(spawner);
                Link::to_process(child?, halted)?
            }
        };
        tracing::info!(pid = link.pid, "the engine started");
        self.link = Some(link);
        self.send(EngineCommand::Configure { backend: self.config.backend, limits: self.limits });
        Ok(())
    }

    /// The load in progress came to nothing: everyone who waited for it hears why.
    pub(super) fn fail_load(&mut self, error: &EngineError) {
        tracing::warn!(%error, "no model is loaded");
        self.wanted = None;
        for reply in self.loading.take().into_iter().flat_map(|loading| loading.replies) {
            let _ = reply.send(Err(error.clone()));
        }
        for id in std::mem::take(&mut self.queued).into_keys() {
            self.streams.end(id, JobFailure::Model(error_text(error)));
        }
    }

    /// The load of another model that waits for its turn. One that nobody waits for any more is forgotten.
    pub(super) fn waiting_load(&mut self) -> Option<&ModelFile> {
        if self.next_load.as_ref().is_some_and(|(_, reply)| reply.is_closed()) {
            self.next_load = None;
        }
        self.next_load.as_ref().map(|(file, _)| file)
    }

    /// A request waits for another model: options do not hold it up. None is taken while it waits.
    fn end_standbys(&mut self) {
        for id in self.streams.options() {
            self.streams.end(id, JobFailure::Busy);
            self.drop_sequence(id);
        }
    }

    /// Whether a load could begin: nothing else is loaded for, or used by, anyone, and no owner is there.
    fn may_load(&self) -> bool {
        self.loading.is_none() && self.streams.is_empty() && !self.is_halted()
    }

    pub(super) fn is_halted(&self) -> bool {
        *self.outlets.halted.borrow()
    }

    /// A halt began or is over. What is being loaded is of no use to anyone now, and takes an owner's processor and disk.
    pub(super) async fn halt(&mut self) {
        if !self.is_halted() {
            self.begin_next_load().await;
        } else if self.loading.is_some() {
            tracing::info!("a load is broken off");
            self.stop().await;
        }
    }

    /// Another model's turn has come when no sequence is left.
    pub(super) async fn begin_next_load(&mut self) {
        if self.may_load()
            && self.waiting_load().is_some()
            && let Some((file, reply)) = self.next_load.take()
        {
            self.begin_load(file, Loading { replies: vec![reply], is_restart: false }).await;
        }
    }

    pub(super) fn become_ready(&mut self, model: &LoadedModel) {
        tracing::info!(model = %model.name, load_ms = model.load_ms, "the engine is ready");
        let loading = self.loading.take().unwrap_or_default();
        self.loaded = Some(model.clone());
        self.ready_since = Some(Instant::now());
        self.publish();
        for reply in loading.replies {
            let _ = reply.send(Ok(model.clone()));
        }
        for (id, (job, beginning)) in std::mem::take(&mut self.queued) {
            self.send(EngineCommand::Submit { id, job, beginning });
        }
        if loading.is_restart {
            self.notify(EngineNotice::Restarted { pid: self.link.as_ref().and_then(|link| link.pid) });
        }
    }

    pub(super) async fn restart(&mut self) {
        self.restart_at = None;
        // A halted engine gets its model back when that is asked for again.
        if let Some(file) = self.wanted.clone().filter(|_| !self.is_halted()) {
            self.begin_load(file, Loading { replies: Vec::new(), is_restart: true }).await;
        }
    }

    pub(super) fn fail_load_quietly(&mut self) {
        self.queued.clear();
        let waiting = self.loading.take().into_iter().flat_map(|loading| loading.replies);
        for reply in waiting.chain(self.next_load.take().map(|(_, reply)| reply)) {
            let _ = reply.send(Err(EngineError::Stopped));
        }
    }
}

/// An error and what it came from, for a peer to read.
fn error_text(error: &EngineError) -> String {
    match error {
        EngineError::Load(failure) => failure.to_string(),
        EngineError::Spawn(_)
        | EngineError::Exited(_)
        | EngineError::OtherModel
        | EngineError::NoModel
        | EngineError::Busy
        | EngineError::BackingOff { .. }
        | EngineError::TooLarge
        | EngineError::Stopped => error.to_string(),
    }
}
