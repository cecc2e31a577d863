//! The contexts that this peer holds, and who may have a copy of their KV cache.
//!
//! A context is given to the one peer that its request's origin has named, on a stream of that peer's; to nobody else,
//! whoever asks. The offer and the question travel on different ways, so that a question waits a moment for its offer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idlewild_engine::{ExportError, SequenceHandle};
use idlewild_protocol::{ContextOpen, ContextRefusal, LayoutFingerprint, MAX_CHUNK_BYTES, ModelId, PeerId, RequestId};
use idlewild_swarm::{ContextRange, ContextServer};
use tokio::sync::watch;
use tracing::{debug, info};

/// A request, and whose it is: no other origin can offer its context, or stand in its way.
pub(super) type Whose = (PeerId, RequestId);

/// A stream on which nothing is asked for so long is closed: a standby that keeps up asks every few tokens.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// How long a question waits for its offer.
const OFFER_WAIT: Duration = Duration::from_secs(2);

/// What is held for one request.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// Tells two contexts of one request apart: the second replaces the first.
    number: u64,
    pub(super) handle: SequenceHandle,
    model: ModelId,
    layout: Option<LayoutFingerprint>,
    kv_bytes_per_token: u32,
    offered_to: watch::Receiver<Option<PeerId>>,
}

#[derive(Debug, Default)]
struct Books {
    next: u64,
    held: BTreeMap<Whose, Held>,
}

/// The contexts of this peer. Cheap to clone; bounded by the engine's sequences.
#[derive(Debug, Clone, Default)]
pub(super) struct Contexts {
    books: Arc<Mutex<Books>>,
    moved: Moved,
}

/// Counts the bytes of KV cache that were sent and received. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Moved(Arc<AtomicU64>);

impl Moved {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keeps a context in the books. Dropping it takes it out.
#[derive(Debug)]
pub(super) struct Kept {
    contexts: Contexts,
    of: Whose,
    number: u64,
    offer: watch::Sender<Option<PeerId>>,
}

impl Kept {
    /// From now on `to` may have it, and nobody else.
    pub(super) fn offer(&self, to: Option<PeerId>) {
        self.offer.send_replace(to);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut books = self.contexts.books();
        if books.held.get(&self.of).is_some_and(|held| held.number == self.number) {
            books.held.remove(&self.of);
        }
    }
}

impl Contexts {
    /// Whatever a panic left is still a list of contexts.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the context of a sequence.
    pub(super) fn keep(
        &self,
        of: Whose,
        model: ModelId,
        (layout, kv_bytes_per_token): (Option<LayoutFingerprint>, u32),
        handle: SequenceHandle,
    ) -> Kept {
        let (offer, offered_to) = watch::channel(None);
        let mut books = self.books();
        books.next += 1;
        let number = books.next;
        books.held.insert(of, Held { number, handle, model, layout, kv_bytes_per_token, offered_to });
        Kept { contexts: self.clone(), of, number, offer }
    }

    /// What has moved so far.
    pub(super) fn moved(&self) -> &Moved {
        &self.moved
    }

    /// Answers one peer's pulls on one stream.
    pub(super) async fn serve(self, mut context: ContextServer, open: ContextOpen) {
        let peer = context.peer();
        let refusal = match self.find(peer, &open).await {
            Ok(held) => {
                info!(request = %open.request, to = %peer.short(), "context is being pulled");
                give(&mut context, &held, &self.moved).await
            }
            Err(refusal) => Some(refusal),
        };
        if let Some(refusal) = refusal {
            debug!(request = %open.request, to = %peer.short(), %refusal, "context is not given");
            // Said also to a peer that has not pulled yet: it goes on without at once. One that is gone needs no reason.
            context.refuse_all(refusal).await.ok();
        }
    }

    /// The context, once it is offered to `peer`.
    pub(super) async fn find(&self, peer: PeerId, open: &ContextOpen) -> Result<Held, ContextRefusal> {
        let held = self.books().held.get(&(open.origin, open.request)).cloned().ok_or(ContextRefusal::NotOffered)?;
        let mut offered_to = held.offered_to.clone();
        let is_offered = offered_to.wait_for(|to| *to == Some(peer));
        if !matches!(tokio::time::timeout(OFFER_WAIT, is_offered).await, Ok(Ok(_))) {
            return Err(ContextRefusal::NotOffered);
        }
        if held.model != open.model || held.layout != Some(open.layout) {
            return Err(ContextRefusal::OtherLayout);
        }
        Ok(held)
    }
}

/// Sends what is asked for until the peer has enough, is not the one any more, or the context is gone. The last two give
/// the reason to tell.
async fn give(context: &mut ContextServer, held: &Held, moved: &Moved) -> Option<ContextRefusal> {
    let peer = context.peer();
    let mut offered_to = held.offered_to.clone();
    tokio::select! {
        // Also while a chunk is on its way: a peer that takes its time holds nothing up.
        withdrawn = offered_to.wait_for(|to| *to != Some(peer)) => {
            Some(if withdrawn.is_ok() { ContextRefusal::NotOffered } else { ContextRefusal::Gone })
        }
        refusal = send_what_is_asked_for(context, held, moved) => refusal,
    }
}

async fn send_what_is_asked_for(context: &mut ContextServer, held: &Held, moved: &Moved) -> Option<ContextRefusal> {
    loop {
        let asked = tokio::time::timeout(IDLE_MAX, context.next()).await;
        let Ok(Ok(ContextRange { from, to })) = asked else { return None };
        // Judged before the engine makes it: it would take others' time.
        let bytes = u64::from(to.saturating_sub(from)) * u64::from(held.kv_bytes_per_token);
        if bytes > u64::from(MAX_CHUNK_BYTES) {
            return Some(ContextRefusal::OtherLayout);
        }
        match held.handle.export(from, to).await {
            Ok(bytes) => {
                moved.add(bytes.len());
                context.send(bytes).await.ok()?;
            }
            Err(ExportError::Gone) => return Some(ContextRefusal::Gone),
            Err(error) => {
                debug!(request = %context.context().request, from, to, %error, "a part of a context is not given");
                context.refuse(refusal_of(&error)).await.ok()?;
            }
        }
    }
}

fn refusal_of(error: &ExportError) -> ContextRefusal {
    match error {
        ExportError::NotHeld => ContextRefusal::NotHeld,
        ExportError::Busy => ContextRefusal::Busy,
        ExportError::Gone => ContextRefusal::Gone,
        // Never of this context, whoever asks.
        ExportError::BadRange | ExportError::Refused(_) => ContextRefusal::OtherLayout,
    }
}
