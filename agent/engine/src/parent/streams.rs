//! The streams that exist, by sequence.

use std::collections::BTreeMap;

use idlewild_protocol::JobFailure;
use tokio::sync::mpsc;

use super::commands::Desk;
use crate::job::{Role, SequenceId};
use crate::{EngineError, EngineStream, SequenceEvent};

/// Sequences that may exist at once, those that run, wait and were queued for a load.
pub(super) const SEQUENCES_MAX: usize = 64;

/// Events of a sequence besides one for each token read, held and written.
const EVENTS_BESIDES: usize = 4;

/// Refusals that a queue has room for; a later one is dropped when nobody reads.
const REFUSALS_MAX: usize = 64;

/// Proofs of life that a queue has room for; more are not needed, so they are dropped when nobody reads.
const PROOFS_MAX: usize = 64;

pub(super) struct Streams {
    next: u64,
    /// Longest context of a sequence: bounds its events.
    context_tokens: usize,
    open: BTreeMap<SequenceId, Open>,
    cancel: mpsc::Sender<SequenceId>,
    cancelled: mpsc::Receiver<SequenceId>,
}

struct Open {
    events: mpsc::Sender<SequenceEvent>,
    /// Nobody waits for it.
    is_option: bool,
}

impl Streams {
    pub(super) fn new(context_tokens: u32) -> Self {
        let (cancel, cancelled) = mpsc::channel(SEQUENCES_MAX);
        Self { next: 0, context_tokens: context_tokens as usize, open: BTreeMap::new(), cancel, cancelled }
    }

    /// A new stream, if there may be one more.
    pub(super) fn open(&mut self, desk: &Desk, role: Role) -> Result<(SequenceId, EngineStream), EngineError> {
        let permit = self.cancel.clone().try_reserve_owned().map_err(|_| EngineError::Busy)?;
        let id = SequenceId(self.next);
        self.next += 1;
        // Events take memory only when they are there.
        let (sender, events) = mpsc::channel(self.essential() + PROOFS_MAX + REFUSALS_MAX);
        self.open.insert(id, Open { events: sender, is_option: role.is_option() });
        Ok((id, EngineStream { handle: desk.handle(id), events, cancel: Some(permit), over: false }))
    }

    /// Events that must never be dropped: each token is read, held and written at most once.
    fn essential(&self) -> usize {
        3 * self.context_tokens + EVENTS_BESIDES
    }

    /// The next stream that was dropped before its end.
    pub(super) async fn cancelled(&mut self) -> SequenceId {
        match self.cancelled.recv().await {
            Some(id) => id,
            // Cannot be: we hold a sender ourselves.
            None => std::future::pending().await,
        }
    }

    pub(super) fn is_open(&self, id: SequenceId) -> bool {
        self.open.contains_key(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// It is a standby no more.
    pub(super) fn promote(&mut self, id: SequenceId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.is_option = false;
        }
    }

    /// Those of standbys.
    pub(super) fn options(&self) -> Vec<SequenceId> {
        self.open.iter().filter(|(_, open)| open.is_option).map(|(id, _)| *id).collect()
    }

    /// Gives an event to its stream. Whether that was its last.
    pub(super) fn pass_on(&mut self, id: SequenceId, event: SequenceEvent) -> bool {
        let is_last = event.is_last();
        let is_refusal = event.is_refusal();
        if let Some(Open { events: stream, .. }) = self.open.get(&id)
            && !(is_refusal && stream.capacity() <= self.essential() + PROOFS_MAX)
            && let Err(mpsc::error::TrySendError::Full(_)) = stream.try_send(event)
        {
            tracing::debug!(sequence = id.0, "a stream's reader is far behind; an event was dropped");
        }
        if is_last {
            self.open.remove(&id);
        }
        is_last
    }

    /// Tells those streams that they are not forgotten.
    pub(super) fn prove_life<'a>(&self, ids: impl Iterator<Item = &'a SequenceId>) {
        for Open { events: stream, .. } in ids.filter_map(|id| self.open.get(id)) {
            if stream.capacity() > stream.max_capacity() - PROOFS_MAX {
                let _ = stream.try_send(SequenceEvent::Prefilled { done: 0, total: 0 });
            }
        }
    }

    pub(super) fn end(&mut self, id: SequenceId, failure: JobFailure) {
        self.pass_on(id, SequenceEvent::Failed(failure));
    }

    pub(super) fn end_all(&mut self, failure: &JobFailure) {
        for Open { events: stream, .. } in std::mem::take(&mut self.open).into_values() {
            let _ = stream.try_send(SequenceEvent::Failed(failure.clone()));
        }
    }

    /// Drops a stream; whether it was open.
    pub(super) fn forget(&mut self, id: SequenceId) -> bool {
        self.open.remove(&id).is_some()
    }
}
