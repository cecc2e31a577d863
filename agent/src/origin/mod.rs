//! Owns requests: one task and one token log each, from the client's question to the last token.
//!
//! ```text
//! api --Submission--> dispatcher --spawns--> task of one request: RequestMachine (pure)
//!                                             |  AskPlacement --> driver (coordinator, or own view)
//!                                             |  Start/Cancel --> pump: job stream --> worker (here or elsewhere)
//!                                             '- Text, Done ----> outbox --> api
//! ```
//!
//! The machine decides; this folder only carries its outputs out and what happens back in.

mod failure;
mod generation;
mod lengths;
mod outbox;
mod placer;
mod pump;
mod record;
mod records;
mod request;

use std::sync::Arc;

use idlewild_protocol::PeerId;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::{Catalogue, Clock};

pub use generation::{
    Failure, FailureKind, GenerationEvent, GenerationRequest, GenerationStream, Origins, Submission, TooManyOpen,
};
pub use placer::{Answer, PlacementAsk, Placer};
pub use pump::{Departed, Workers};
pub use records::Records;

use lengths::Lengths;
use request::{LAST_WORDS, RequestTask};

/// What every request of this peer works with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shell {
    me: PeerId,
    clock: Clock,
    placer: Placer,
    workers: Workers,
    records: Records,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    lengths: Arc<Lengths>,
    stop: CancellationToken,
}

impl Shell {
    /// For a peer's requests. `stop` ends them with a last word to their clients.
    pub fn new(
        (me, clock): (PeerId, Clock),
        placer: Placer,
        workers: Workers,
        records: Records,
        catalogue: watch::Receiver<Arc<Catalogue>>,
        stop: CancellationToken,
    ) -> Self {
        Self { me, clock, placer, workers, records, catalogue, lengths: Arc::default(), stop }
    }

    /// Takes requests until they end or the agent stops; then waits a moment for last words.
    pub async fn dispatch(self, mut submissions: mpsc::Receiver<Submission>) {
        let tasks = TaskTracker::new();
        let stop = self.stop.clone();
        while let Some(Some(submission)) = stop.run_until_cancelled(submissions.recv()).await {
            tasks.spawn(RequestTask::new(self.clone(), submission).run());
        }
        tasks.close();
        tokio::time::timeout(LAST_WORDS, tasks.wait()).await.ok();
    }
}
