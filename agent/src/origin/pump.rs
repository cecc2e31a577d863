//! Carries one assignment's events from its worker to the request's task.

use idlewild_coordinator::ownership::LossReason;
use idlewild_protocol::{Epoch, JobEvent, JobStart, PeerId};
use idlewild_swarm::Swarm;
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;

use crate::worker::{OriginEnd, Worker, local_line};

/// Events of one assignment that may wait for the request's task. A full queue slows the worker's stream down.
pub(super) const NEWS: usize = 64;

/// What comes of an assignment.
#[derive(Debug)]
pub(super) enum News {
    /// Its worker says.
    Event(JobEvent),
    /// It is no more.
    Lost(LossReason),
}

/// A departure that the swarm noticed.
pub type Departed = (PeerId, LossReason);

/// Opens jobs, here or elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workers {
    me: PeerId,
    local: Worker,
    swarm: Swarm,
    departures: broadcast::Sender<Departed>,
}

impl Workers {
    /// The workers that can be reached from here: `local`, and those of `swarm`. The driver sends what it hears of
    /// departures on `departures`.
    pub fn new(local: Worker, swarm: Swarm, departures: broadcast::Sender<Departed>) -> Self {
        Self { me: swarm.me(), local, swarm, departures }
    }

    async fn open(&self, worker: PeerId, start: JobStart) -> Result<OriginEnd, LossReason> {
        if worker == self.me {
            let (ours, theirs) = local_line(self.me);
            self.local.take(theirs, start);
            return Ok(ours);
        }
        let opened = self.swarm.open_job(worker, start).await;
        opened.map(|client| OriginEnd::Remote(Box::new(client))).map_err(|_| LossReason::NotOpened)
    }
}

/// The running transport of one assignment. Dropping it closes the stream, which cancels the job.
#[derive(Debug)]
pub(super) struct Pump {
    pub(super) epoch: Epoch,
    task: AbortHandle,
}

impl Pump {
    /// Opens the job and carries its events, ending with a loss or with the worker's last word.
    pub(super) fn start(workers: &Workers, worker: PeerId, start: JobStart, news: mpsc::Sender<(Epoch, News)>) -> Self {
        let epoch = start.epoch;
        let workers = workers.clone();
        let departures = workers.departures.subscribe();
        let task = tokio::spawn(async move {
            let carried = carry(&workers, worker, start, &news);
            let lost = tokio::select! {
                lost = carried => lost,
                lost = departure_of(worker, departures) => Some(lost),
            };
            if let Some(lost) = lost {
                news.send((epoch, News::Lost(lost))).await.ok();
            }
        });
        Self { epoch, task: task.abort_handle() }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    workers: &Workers,
    worker: PeerId,
    start: JobStart,
    news: &mpsc::Sender<(Epoch, News)>,
) -> Option<LossReason> {
    let epoch = start.epoch;
    let mut line = match workers.open(worker, start).await {
        Ok(line) => line,
        Err(lost) => return Some(lost),
    };
    loop {
        let Ok(event) = line.next().await else { return Some(LossReason::Closed) };
        let is_last = matches!(event, JobEvent::Finished { .. } | JobEvent::Failed { .. });
        if news.send((epoch, News::Event(event))).await.is_err() || is_last {
            return None;
        }
    }
}

/// Waits for the swarm to say that `worker` is gone. It knows why, and where the machine froze it knows first.
async fn departure_of(worker: PeerId, mut departures: broadcast::Receiver<Departed>) -> LossReason {
    loop {
        match departures.recv().await {
            Ok((peer, why)) if peer == worker => return why,
            // What was missed, the stream's own end tells.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
