//! Where the API asks the driver: questions with one answer each, and what it may look at without asking.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::Catalogue;
use crate::api::wire::{
    DoctorReply, HazardReply, InviteReply, InviteRequest, ModelsReply, MoveReply, MoveRequest, RulesReply, StatusReply,
    StopReply,
};
use crate::origin::{MoveRefused, Records};
use crate::owner::rules::Pause;
use crate::store::StoreError;

/// Questions that may wait. They come from this machine's own command line: a person, or a script of theirs.
const ASKS: usize = 16;

/// How long an answer may take. The driver never waits for anything itself; only a start or a stop makes it this late.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A question to the driver, with where the answer goes.
#[derive(Debug)]
pub enum Ask {
    /// What `idlewild status` shows.
    Status(oneshot::Sender<StatusReply>),
    /// How the owner is looked for, and what is seen: what `idlewild doctor` shows.
    Doctor(oneshot::Sender<DoctorReply>),
    /// The models of the swarm, and who could run them.
    Models(oneshot::Sender<ModelsReply>),
    /// The models on disk have changed: read them anew, then answer as for `Models`.
    Reread(oneshot::Sender<ModelsReply>),
    /// A running request is wanted elsewhere.
    Move(MoveRequest, oneshot::Sender<Result<MoveReply, MoveRefused>>),
    /// What the rules say now.
    Rules(oneshot::Sender<RulesReply>),
    /// The owner pauses this machine, or no longer does; answered once it is on the disk.
    Pause(Pause, oneshot::Sender<Result<(), String>>),
    /// A ticket for a newcomer.
    Invite(InviteRequest, oneshot::Sender<Result<InviteReply, InviteRefused>>),
    /// How long this peer's session is expected to last, and how good such forecasts were.
    Hazard(oneshot::Sender<Result<HazardReply, StoreError>>),
    /// The sessions on record have changed: estimate anew, then answer as for `Hazard`.
    RereadSessions(oneshot::Sender<Result<HazardReply, StoreError>>),
    /// Stop as on SIGTERM.
    Stop(oneshot::Sender<StopReply>),
}

/// Whether a request could be served now, as far as this peer knows; `/ready` says it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// Before the swarm runs.
    #[default]
    Starting,
    /// Nobody has any model.
    NoModel,
    /// Whoever has a model takes no work.
    NobodyServes,
    /// A peer that can be reached takes work and has a model.
    Ready,
    /// The agent goes down.
    Stopping,
}

impl std::fmt::Display for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Starting => "this agent is starting",
            Self::NoModel => "no peer of this swarm has a model yet; add one with `idlewild models import FILE.gguf`",
            Self::NobodyServes => "no peer that has a model takes work now; `idlewild status` shows the peers",
            Self::Ready => "ready",
            Self::Stopping => "this agent is stopping",
        })
    }
}

/// Why there is no ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InviteRefused {
    /// The peer's certificate does not allow it.
    #[error("this peer may not invite; ask the one who created the swarm for an invitation")]
    MayNotInvite,
    /// The ticket's time is out of range.
    #[error("a ticket counts for {min_s} to {max_s} seconds")]
    BadTime {
        /// The least.
        min_s: u64,
        /// The most.
        max_s: u64,
    },
    /// It could not be kept, so that it could not be redeemed either.
    #[error("the ticket could not be kept: {0}")]
    NotKept(String),
    /// No address to write on it.
    #[error("this peer has no address yet at which a newcomer could reach it; try again in a moment")]
    NoAddress,
}

/// The driver did not answer: it starts, or stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent is starting or stopping; try again in a moment")]
pub struct NoAnswer;

/// The API's side. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Desk {
    asks: mpsc::Sender<Ask>,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    ready: watch::Receiver<Readiness>,
    records: Records,
}

/// The driver's side.
#[derive(Debug)]
pub struct DeskBack {
    /// What is asked.
    pub asks: mpsc::Receiver<Ask>,
    /// Publishes the models.
    pub catalogue: watch::Sender<Arc<Catalogue>>,
    /// Publishes whether requests can be served.
    pub ready: watch::Sender<Readiness>,
}

impl Desk {
    /// Both sides.
    pub fn pair(records: Records) -> (Self, DeskBack) {
        let (asks, asks_back) = mpsc::channel(ASKS);
        let (catalogue_back, catalogue) = watch::channel(Arc::default());
        let (ready_back, ready) = watch::channel(Readiness::default());
        let back = DeskBack { asks: asks_back, catalogue: catalogue_back, ready: ready_back };
        (Self { asks, catalogue, ready, records }, back)
    }

    /// The models as last published.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.borrow())
    }

    /// Follows the models.
    pub fn watch_catalogue(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.catalogue.clone()
    }

    /// Whether requests can be served, as last published.
    pub fn readiness(&self) -> Readiness {
        *self.ready.borrow()
    }

    /// What became of requests.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Asks, and waits for the answer.
    pub async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.asks.send(question(reply)).await.map_err(|_| NoAnswer)?;
            answer.await.map_err(|_| NoAnswer)
        };
        timeout(ANSWER_WITHIN, asked).await.unwrap_or(Err(NoAnswer))
    }
}
