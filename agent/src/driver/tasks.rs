//! What runs beside the loop, and says when it is done.

use idlewild_protocol::PeerId;
use idlewild_swarm::{Probe, ProbeError};
use tokio::sync::{mpsc, oneshot};

use crate::api::wire::ModelsReply;

/// Links that are probed at once, and readings that are done at once, before the loop looks.
const WAITING: usize = 16;

/// A probe that has ended.
pub(super) type Probed = (PeerId, Result<Probe, ProbeError>);

/// The models on disk have been read anew, and somebody waits for what there is now.
pub(super) type Reread = oneshot::Sender<ModelsReply>;

/// Where tasks say that they are done.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    pub(super) probes: mpsc::Sender<Probed>,
    pub(super) rereads: mpsc::Sender<Reread>,
    /// Whether a vote is on the disk. One is written at a time.
    pub(super) votes: mpsc::Sender<bool>,
}

/// A task is done.
#[derive(Debug)]
pub(super) enum Done {
    Probed(Probed),
    Reread(Reread),
    Kept(bool),
}

/// Where the loop hears of it.
#[derive(Debug)]
pub(super) struct Outcomes {
    probed: mpsc::Receiver<Probed>,
    reread: mpsc::Receiver<Reread>,
    kept: mpsc::Receiver<bool>,
}

/// Both ends.
pub(super) fn tasks() -> (Tasks, Outcomes) {
    let ((probes, probed), (rereads, reread)) = (mpsc::channel(WAITING), mpsc::channel(WAITING));
    let (votes, kept) = mpsc::channel(1);
    (Tasks { probes, rereads, votes }, Outcomes { probed, reread, kept })
}

impl Outcomes {
    /// Waits for the next. May be dropped without losing one.
    pub(super) async fn next(&mut self) -> Done {
        tokio::select! {
            biased;
            Some(is_kept) = self.kept.recv() => Done::Kept(is_kept),
            Some(probed) = self.probed.recv() => Done::Probed(probed),
            Some(reply) = self.reread.recv() => Done::Reread(reply),
            else => std::future::pending().await,
        }
    }
}
