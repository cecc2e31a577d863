//! What a rogue does unasked: it asks for contexts that are not its own, pulls and does not read, and talks without pause.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::FutureExt;
use idlewild_protocol::{ContextOpen, Epoch, JobInput, JobRequest, JobStart, PeerId, RequestId, Sampling};
use idlewild_swarm::Swarm;

use super::Rogue;
use crate::Agent;

/// Longer than any honest holder keeps one waiting.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Positions of each pull.
const POSITIONS: u32 = 64;

/// What came of asking.
#[derive(Debug)]
pub struct Asked {
    /// How long it took.
    pub took: Duration,
    /// Bytes of chunks that came.
    pub bytes: u64,
    /// What was said, or how the stream ended.
    pub outcome: String,
}

/// Words on their way to a worker.
#[derive(Debug, Clone, Default)]
pub struct WordFlood {
    sent: Arc<AtomicU32>,
    has_ended: Arc<AtomicBool>,
}

impl WordFlood {
    /// Words that were taken so far.
    pub fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether all were said, or the worker has closed the stream.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

impl Rogue {
    /// Asks `holder` for the first positions of a context.
    pub fn ask(&self, holder: &Agent, open: ContextOpen) -> Result<Asked> {
        let (swarm, holder) = (self.swarm.clone(), id(holder)?);
        let asking =
            self.runtime()?.spawn(async move { tokio::time::timeout(ANSWER_WITHIN, ask(&swarm, holder, open)).await });
        let asked = futures::executor::block_on(asking).context("the rogue's task failed")?;
        asked.context("the holder never answered")
    }

    /// Opens `streams` for a context of `holder`, has `pulls` under way on each, and reads none of them. Says on how many it
    /// could.
    pub fn pull_unread(&self, holder: &Agent, open: ContextOpen, streams: usize, pulls: u32) -> Result<usize> {
        let (swarm, holder, unread) = (self.swarm.clone(), id(holder)?, Arc::clone(&self.unread));
        let pulling = self.runtime()?.spawn(async move {
            let mut opened = 0;
            for _ in 0..streams {
                // A connection has so many streams, and no more.
                let Ok(mut client) = swarm.open_context(holder, open).await else { continue };
                let asked = (0..pulls).all(|at| client.pull(at * POSITIONS, (at + 1) * POSITIONS).is_ok());
                opened += usize::from(asked);
                unread.lock().unwrap_or_else(PoisonError::into_inner).push(client);
            }
            opened
        });
        futures::executor::block_on(pulling).context("the rogue's task failed")
    }

    /// Closes the streams that it does not read.
    pub fn close_unread(&self) {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// As an origin, has `worker` run a job, and says `count` times that it may go on.
    pub fn flood_words(&self, worker: &Agent, start: JobStart, count: u32) -> Result<WordFlood> {
        let (swarm, worker, flood) = (self.swarm.clone(), id(worker)?, WordFlood::default());
        let told = flood.clone();
        self.runtime()?.spawn(async move {
            talk(&swarm, worker, start, count, &told).await;
            told.has_ended.store(true, Ordering::Relaxed);
        });
        Ok(flood)
    }

    /// A job of its own, for [`Rogue::flood_words`].
    pub fn job_of_its_own(&self, prompt: &str, max_tokens: u32) -> Result<JobStart> {
        let loaded = self.engine.stats().model.context("the rogue has no model")?;
        Ok(JobStart {
            request: RequestId(rand::random()),
            epoch: Epoch(1),
            model: loaded.id,
            input: JobInput::Text { prompt: prompt.to_owned() },
            sampling: Sampling::default(),
            max_tokens,
            stop: Vec::new(),
            pull: None,
        })
    }
}

fn id(agent: &Agent) -> Result<PeerId> {
    agent.peer()?.parse().context("a peer's id")
}

async fn ask(swarm: &Swarm, holder: PeerId, open: ContextOpen) -> Asked {
    let began = Instant::now();
    let (bytes, outcome) = match swarm.open_context(holder, open).await {
        Ok(mut client) => {
            let pulled = client.pull(0, POSITIONS);
            let outcome = match pulled {
                Ok(()) => format!("{:?}", client.next().await.map(|pulled| summary(&pulled))),
                Err(error) => error.to_string(),
            };
            (client.received_bytes(), outcome)
        }
        Err(error) => (0, error.to_string()),
    };
    Asked { took: began.elapsed(), bytes, outcome }
}

/// Without a chunk's megabytes.
fn summary(pulled: &idlewild_swarm::Pulled) -> String {
    match pulled {
        idlewild_swarm::Pulled::Chunk { bytes, .. } => format!("a chunk of {} bytes", bytes.len()),
        idlewild_swarm::Pulled::Refused { refusal, .. } => refusal.to_string(),
    }
}

async fn talk(swarm: &Swarm, worker: PeerId, start: JobStart, count: u32, flood: &WordFlood) {
    let Ok(mut client) = swarm.open_job(worker, start).await else { return };
    for _ in 0..count {
        if client.send(JobRequest::GoOn).await.is_err() {
            return;
        }
        flood.sent.fetch_add(1, Ordering::Relaxed);
        // What the worker says is taken, so that it has no reason to wait.
        while let Some(event) = client.next().now_or_never() {
            if event.is_err() {
                return;
            }
        }
    }
}
