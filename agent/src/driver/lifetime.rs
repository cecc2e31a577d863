//! An agent's life: start, run, and an end that leaves nobody waiting.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use idlewild_coordinator::election;
use idlewild_protocol::DepartureCause;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::desk::Readiness;
use super::event_loop::{Driver, Inbox};
use super::launch::{self, Assembled, Launch, OnDisk};
use super::tasks::Done;
use crate::api::EmptyKey;
use crate::config::PathsError;
use crate::models::ModelError;
use crate::owner::{OwnerSource, ScriptError};
use crate::store::{FileError, IdentityError, LockError, MembershipError, StoreError, remove_running};

/// How long running jobs may take to tell their origins, at the end, besides the time in which their contexts may leave.
const JOBS_END: Duration = Duration::from_millis(500);

/// How long open HTTP connections may take to hear the last word.
const API_END: Duration = Duration::from_secs(2);

/// How long the last writes may take.
const DISK_END: Duration = Duration::from_secs(2);

/// The agent could not start. Nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directories cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// Another process uses them.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The membership cannot be used.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The API's key is no key.
    #[error(transparent)]
    Key(#[from] EmptyKey),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The models cannot be listed.
    #[error(transparent)]
    Models(#[from] ModelError),
    /// The owner's script cannot be read.
    #[error(transparent)]
    Owner(#[from] ScriptError),
    /// The API's port is taken.
    #[error(
        "port {} of {} is in use; stop the other program, or set api.port (--api-port) to another, or to 0 for any",
        .0.port(), .0.ip()
    )]
    ApiPortInUse(SocketAddr),
    /// The API cannot listen there.
    #[error("the API cannot listen on {address}; set api.address and api.port to what this machine has")]
    ApiListen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The swarm cannot start.
    #[error(transparent)]
    Swarm(#[from] idlewild_swarm::StartError),
    /// The program's own file is not known, so that no engine can be started.
    #[error("this program cannot find its own file, which it runs the engine from")]
    OwnProgram(#[source] io::Error),
    /// Signals cannot be listened to.
    #[error("signals cannot be listened to")]
    Signals(#[source] io::Error),
}

impl RunError {
    pub(super) fn api(address: SocketAddr, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::AddrInUse {
            Self::ApiPortInUse(address)
        } else {
            Self::ApiListen { address, source }
        }
    }
}

/// Runs an agent until SIGTERM, SIGINT or the stop route.
pub async fn run(launch: Launch) -> Result<(), RunError> {
    let stop = CancellationToken::new();
    let (told, signalled) = (told_to_end().map_err(RunError::Signals)?, stop.clone());
    let watch = tokio::spawn(async move {
        told.await;
        info!("told to end by a signal");
        signalled.cancel();
    });
    // On the heap: it holds the whole agent.
    let outcome = Box::pin(run_until(launch, stop)).await;
    watch.abort();
    outcome
}

/// Resolves at SIGTERM or SIGINT.
#[cfg(unix)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

/// Resolves at Ctrl-C.
#[cfg(not(unix))]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        tokio::signal::ctrl_c().await.ok();
    })
}

/// Runs an agent until `stop` is cancelled or the stop route is called.
pub async fn run_until(launch: Launch, stop: CancellationToken) -> Result<(), RunError> {
    let (disk, owner) = OnDisk::take(&launch).await?;
    let api_stop = CancellationToken::new();
    let served = launch::serve_api(&launch, &disk, api_stop.clone()).await?;
    let ran = run_with_api(&launch, disk, served, (owner, stop), api_stop).await;
    remove_running(&launch.paths);
    ran
}

async fn run_with_api(
    launch: &Launch,
    disk: OnDisk,
    served: launch::Served,
    owner_and_stop: (Box<dyn OwnerSource>, CancellationToken),
    api_stop: CancellationToken,
) -> Result<(), RunError> {
    let swarm = launch::start_swarm(launch, &disk).await?;
    info!(api = %served.address, peer = %disk.seed.peer(), boot = disk.boot.0, "started");
    let (assembled, _lock) = launch::assemble(launch, disk, served, swarm, owner_and_stop).await?;
    let Assembled { mut driver, mut inbox, origins, writer, api } = assembled;
    driver.run(&mut inbox).await;
    info!("stopping");
    driver.stop.cancel();
    driver.desk.ready.send_replace(Readiness::Stopping);
    driver.say_farewell(&mut inbox).await;
    // Requests tell their clients before the API closes.
    origins.await.ok();
    api_stop.cancel();
    if timeout(API_END, api).await.is_err() {
        warn!("some HTTP connections were still open");
    }
    driver.end(writer).await;
    info!("stopped");
    Ok(())
}

impl Driver {
    /// Nothing new from here on; what runs is told, and a leader hands over. Others may fetch the contexts that are still here.
    async fn say_farewell(&mut self, inbox: &mut Inbox) {
        self.leave(DepartureCause::Shutdown);
        self.elect(election::Input::Leaving);
        let mut jobs = self.worker.watch_jobs();
        let grace = JOBS_END + Duration::from_millis(u64::from(self.grace_ms));
        let ended = async {
            tokio::select! {
                _ = jobs.wait_for(|running| *running == 0) => {}
                () = sleep(grace) => warn!("some jobs did not end in time"),
            }
        };
        tokio::pin!(ended);
        loop {
            tokio::select! {
                biased;
                () = &mut ended => return,
                Some(event) = inbox.swarm.recv() => self.handle_swarm(event),
                Done::Kept(is_kept) = inbox.outcomes.next() => self.handle_kept(is_kept),
            }
        }
    }

    /// Says goodbye and lets go of everything.
    async fn end(self, writer: tokio::task::JoinHandle<()>) {
        self.swarm.shut_down(DepartureCause::Shutdown, 0).await;
        self.worker.stop().await;
        let (store, rates) = (self.store.clone(), self.worker.last_rates());
        // The writer ends when the driver's sender is gone.
        drop(self);
        let written = async {
            writer.await.ok();
            if let Some(rates) = rates {
                store.record_rate(rates).await?;
            }
            store.flush().await
        };
        match timeout(DISK_END, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "the last writes failed"),
            Err(_) => warn!("the disk did not take the last writes in time"),
        }
    }
}
