//! What goes on in a rogue: it says what it is once a second, and has tasks for whatever others ask of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use idlewild_engine::{Engine, SequenceHandle};
use idlewild_protocol::{ControlMessage, ModelId, PeerId, RequestId};
use idlewild_swarm::{Identity, Swarm, SwarmEvent};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::looks::Looks;
use super::{Manner, Seen, context, job};
use crate::Fake;

/// Between two words about itself.
const BEAT: Duration = Duration::from_secs(1);

/// Whether it takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// Its owner is away.
    Serving,
    /// Its owner is back, and what it holds stays for so long.
    Gone { notice_ms: u32 },
}

/// The contexts that it holds. Bounded by its engine's sequences.
pub(super) type HeldContexts = Arc<Mutex<BTreeMap<RequestId, SequenceHandle>>>;

/// All that a rogue is made of. Cheap to clone.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) identity: Identity,
    pub(super) swarm: Swarm,
    pub(super) engine: Engine,
    pub(super) model: ModelId,
    pub(super) rates: Fake,
    pub(super) manner: watch::Receiver<Manner>,
    pub(super) presence: watch::Receiver<Presence>,
    pub(super) seen: mpsc::Sender<Seen>,
    pub(super) held: HeldContexts,
}

impl Life {
    /// Goes on until the swarm ends.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<SwarmEvent>) -> Result<()> {
        let mut looks = Looks::new(self.identity.clone(), self.swarm.boot(), self.model, self.rates);
        let mut stats = self.engine.watch_stats();
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let digest = looks.news(*self.presence.borrow_and_update(), &stats.borrow_and_update().clone())?;
            if let Some(digest) = digest {
                self.tell_all(&ControlMessage::Digest(digest));
            }
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.hear(event, &looks)?,
                    None => return Ok(()),
                },
                changed = self.presence.changed() => changed?,
                changed = stats.changed() => changed?,
                _ = beat.tick() => self.tell_all(&ControlMessage::Unchanged(looks.version())),
            }
        }
    }

    fn hear(&self, event: SwarmEvent, looks: &Looks) -> Result<()> {
        match event {
            SwarmEvent::Connected { peer, .. } => {
                self.tell(peer, &ControlMessage::Digest(looks.signed()?));
                self.tell(peer, &ControlMessage::Models(looks.models()));
            }
            SwarmEvent::Job { job, start } => {
                self.see(Seen::Job(start.request));
                tokio::spawn(job::work(self.clone(), job, *start));
            }
            SwarmEvent::Prepare { job, start } => {
                self.see(Seen::Prepares(start.request));
                tokio::spawn(job::stand_by(self.clone(), job, *start));
            }
            SwarmEvent::Context { context, open } => {
                tokio::spawn(context::serve(self.clone(), context, open));
            }
            // It votes for nobody, plans nothing, and believes what it likes.
            SwarmEvent::Control { .. }
            | SwarmEvent::Departed { .. }
            | SwarmEvent::Refused { .. }
            | SwarmEvent::Listening(_)
            | SwarmEvent::Hint(_) => {}
        }
        Ok(())
    }

    /// Tells the test, if that still looks.
    pub(super) fn see(&self, seen: Seen) {
        self.seen.try_send(seen).ok();
    }

    pub(super) fn manner(&self) -> Manner {
        *self.manner.borrow()
    }

    pub(super) fn keep(&self, request: RequestId, handle: SequenceHandle) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(request, handle);
    }

    pub(super) fn forget(&self, request: RequestId) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&request);
    }

    pub(super) fn holds(&self, request: RequestId) -> Option<SequenceHandle> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&request).cloned()
    }

    fn tell_all(&self, message: &ControlMessage) {
        for link in self.swarm.peers() {
            self.tell(link.peer, message);
        }
    }

    /// Whoever does not take it hears the next word.
    fn tell(&self, peer: PeerId, message: &ControlMessage) {
        self.swarm.send(peer, message).ok();
    }
}
