//! Owns requests: one task and one token log each, from the client's question to the last token.
//!
//! ```text
//! api --Submission--> dispatcher --spawns--> task of one request: RequestMachine (pure)
//!                                             |  AskPlacement --> driver (coordinator, or own view)
//!                                             |  Start/Cancel --> pump: job stream --> worker (here or elsewhere)
//!                                             |  reports, refusals --> driver --> coordinator
//!                                             |  <-- plans, a person's wishes (open_requests)
//!                                             '- Text, Done ----> outbox --> api
//! ```
//!
//! The machine decides; this folder only carries its outputs out and what happens back in.

mod failure;
mod following;
mod generation;
mod lengths;
mod manual;
mod moves;
mod open_requests;
mod outbox;
mod overheads;
mod placer;
mod pump;
mod reading;
mod record;
mod records;
mod reporting;
mod request;
mod stopwatch;
mod streams;
mod turns;

use std::sync::Arc;

use idlewild_protocol::PeerId;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::{Catalogue, Clock};

pub use generation::{
    Failure, FailureKind, GenerationEvent, GenerationRequest, GenerationStream, Origins, Submission, TooManyOpen,
};
#[cfg(test)]
pub(crate) use open_requests::Registration;
pub use open_requests::{MoveRefused, OpenRequests, Told, Wish};
pub use overheads::{Measured, MeasuredOverheads, MeasuredTime};
pub use placer::{Answer, PlacementAsk, Placer};
pub use pump::{Departed, Workers};
pub use records::Records;
pub use reporting::{OriginNews, Reports};

use lengths::Lengths;
use request::{LAST_WORDS, RequestTask};

/// How requests and the driver, which knows the coordinator, reach each other.
#[derive(Debug, Clone)]
pub struct Coordinating {
    /// Where to run: questions.
    pub placer: Placer,
    /// What becomes of what runs: plans, to the request.
    pub open: OpenRequests,
    /// How it is doing: reports, to the driver.
    pub reports: Reports,
    /// What moves take, for both.
    pub overheads: MeasuredOverheads,
}

/// What every request of this peer works with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shell {
    me: PeerId,
    clock: Clock,
    placer: Placer,
    workers: Workers,
    records: Records,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    lengths: Lengths,
    open: OpenRequests,
    reports: Reports,
    overheads: MeasuredOverheads,
    stop: CancellationToken,
}

impl Shell {
    /// For a peer's requests. `stop` ends them with a last word to their clients.
    pub fn new(
        (me, clock): (PeerId, Clock),
        coordinating: Coordinating,
        workers: Workers,
        records: Records,
        catalogue: watch::Receiver<Arc<Catalogue>>,
        stop: CancellationToken,
    ) -> Self {
        let Coordinating { placer, open, reports, overheads } = coordinating;
        let lengths = Lengths::default();
        Self { me, clock, placer, workers, records, catalogue, lengths, open, reports, overheads, stop }
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
