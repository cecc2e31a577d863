//! Keeps a child alive. (In the making: answers every request with `Stopped`.)

use tokio::sync::{mpsc, watch};

use super::Request;
use super::link::Place;
use crate::{EngineConfig, EngineNotice, EngineStats};

#[expect(dead_code, reason = "the next commit")]
pub(super) struct Supervisor {
    config: EngineConfig,
    place: Place,
    stats: watch::Sender<EngineStats>,
    notices: mpsc::Sender<EngineNotice>,
}

impl Supervisor {
    pub(super) fn new(
        config: EngineConfig,
        place: Place,
        stats: watch::Sender<EngineStats>,
        notices: mpsc::Sender<EngineNotice>,
    ) -> Self {
        Self { config, place, stats, notices }
    }

    #[expect(clippy::unused_async, reason = "the next commit")]
    pub(super) async fn run(self, requests: mpsc::Receiver<Request>) {
        drop(requests);
    }
}
