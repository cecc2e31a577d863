//! Starting (the event loop lands next; until then every start fails, and says so).
use tokio::sync::mpsc;

use crate::{StartError, Swarm, SwarmConfig, SwarmEvent};

/// Starts the swarm.
#[expect(clippy::unused_async, reason = "the event loop lands in the next commit")]
pub async fn start(config: SwarmConfig) -> Result<(Swarm, mpsc::Receiver<SwarmEvent>), StartError> {
    drop(config);
    Err(StartError::Runtime(std::io::ErrorKind::Unsupported.into()))
}
