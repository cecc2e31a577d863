//! Carries one stream's words between its worker (or destination) and the request's task.

use idlewild_coordinator::ownership::LossReason;
use idlewild_protocol::{JobEvent, JobRequest, JobStart, PeerId};
use idlewild_swarm::Swarm;
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;

use super::streams::StreamName;
use crate::worker::{OriginEnd, Part, Worker, local_line};

/// Events of one stream that may wait for the request's task. A full queue slows that worker's stream down, and no other.
pub(super) const NEWS: usize = 64;

/// Words for one stream that may wait: a destination is told each token.
const WORDS: usize = 256;

/// What comes of a stream.
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

    async fn open(&self, worker: PeerId, start: JobStart, part: Part) -> Result<OriginEnd, LossReason> {
        if worker == self.me {
            let (ours, theirs) = local_line(self.me);
            self.local.take(theirs, start, part);
            return Ok(ours);
        }
        let opened = match part {
            Part::Worker => self.swarm.open_job(worker, start).await,
            Part::Standby => self.swarm.open_prepare(worker, start).await,
        };
        opened.map(|client| OriginEnd::Remote(Box::new(client))).map_err(|_| LossReason::NotOpened)
    }
}

/// The running transport of one stream. Dropping it closes the stream, which cancels the job.
#[derive(Debug)]
pub(super) struct Pump {
    words: mpsc::Sender<JobRequest>,
    task: AbortHandle,
}

impl Pump {
    /// Opens the job and carries what is said; what it brings ends with a loss or with the worker's last word.
    pub(super) fn start(
        workers: &Workers,
        worker: PeerId,
        start: JobStart,
        name: StreamName,
    ) -> (Self, mpsc::Receiver<News>) {
        let (words, outgoing) = mpsc::channel(WORDS);
        let (news, brought) = mpsc::channel(NEWS);
        let workers = workers.clone();
        let departures = workers.departures.subscribe();
        let task = tokio::spawn(async move {
            let carried = carry(&workers, worker, start, name, (outgoing, &news));
            let lost = tokio::select! {
                lost = carried => lost,
                lost = departure_of(worker, departures) => Some(lost),
            };
            if let Some(lost) = lost {
                news.send(News::Lost(lost)).await.ok();
            }
        });
        (Self { words, task: task.abort_handle() }, brought)
    }

    /// Says something to the worker. False where too much waits already: it is as good as gone.
    pub(super) fn tell(&self, word: JobRequest) -> bool {
        match self.words.try_send(word) {
            // Closed: its end is on the way as news.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => false,
        }
    }
}

#[cfg(test)]
impl Pump {
    /// One without a worker: what it is told comes out of the first receiver, and what the sender is given it brings.
    pub(super) fn bare() -> ((Self, mpsc::Receiver<News>), mpsc::Receiver<JobRequest>, mpsc::Sender<News>) {
        let (words, told) = mpsc::channel(WORDS);
        let (news, brought) = mpsc::channel(NEWS);
        let task = tokio::spawn(std::future::pending::<()>());
        ((Self { words, task: task.abort_handle() }, brought), told, news)
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
    name: StreamName,
    (mut words, news): (mpsc::Receiver<JobRequest>, &mpsc::Sender<News>),
) -> Option<LossReason> {
    let part = match name {
        StreamName::Assignment(_) => Part::Worker,
        StreamName::Preparation(_) => Part::Standby,
    };
    let mut line = match workers.open(worker, start, part).await {
        Ok(line) => line,
        Err(lost) => return Some(lost),
    };
    loop {
        // Both sides of the line can be dropped half-way without losing or cutting a word.
        tokio::select! {
            Some(word) = words.recv() => {
                if line.send(word).await.is_err() {
                    return Some(LossReason::Closed);
                }
            }
            event = line.next() => {
                let Ok(event) = event else { return Some(LossReason::Closed) };
                let is_last = matches!(event, JobEvent::Finished { .. } | JobEvent::Failed { .. });
                if news.send(News::Event(event)).await.is_err() || is_last {
                    return None;
                }
            }
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
