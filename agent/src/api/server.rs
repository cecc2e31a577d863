//! Connections to the API: a bounded number, each without delay (tokens are small, and each should go out at once), and none
//! for whoever says nothing.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::room::{Place, Room};

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections open at once; requests are bounded by a setting of their own. Fewer than the 1024 files that a process
    /// may usually have open: one that cannot be accepted pushes nobody out.
    pub(super) connections: usize,
    /// How long a request's head may take, and how long a connection may say nothing between two requests.
    pub(super) head_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 768, head_within: Duration::from_secs(10) }
    }
}

/// Serves until `stop` resolves, then lets answers that are under way end.
pub(super) async fn serve(
    mut listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (room, tasks, stopping) = (Room::new(limits.connections), TaskTracker::new(), CancellationToken::new());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_within);
    let accept = async {
        loop {
            let (stream, _) = Listener::accept(&mut listener).await;
            let place = room.enter().await;
            tasks.spawn(attend(http.clone(), stream, router.clone(), place, stopping.clone()));
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop => {}
    }
    drop(listener);
    stopping.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// One connection, from its first request to its end.
async fn attend(
    http: http1::Builder,
    stream: TcpStream,
    router: Router,
    place: Arc<Place>,
    stopping: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "small writes to this client may be delayed");
    }
    let (inner, of) = (TowerToHyperService::new(router), Arc::clone(&place));
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        // The guard says there whether the key was shown.
        request.extensions_mut().insert(Arc::clone(&of));
        inner.call(request)
    });
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut is_stopping = false;
    loop {
        tokio::select! {
            outcome = served.as_mut() => {
                if let Err(error) = outcome {
                    debug!(%error, "a connection to the API ended");
                }
                return;
            }
            () = place.lost() => return debug!("a silent connection to the API makes room"),
            () = stopping.cancelled(), if !is_stopping => {
                is_stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
