//! The message buses: the one place that connects to them, within a deadline.

use std::time::Duration;

use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::Builder;

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum NotConnected {
    /// It took too long: the bus hangs.
    Silent,
    /// It failed.
    Failed(zbus::Error),
}

/// The bus of the system. It, and each call over it, may take `within`.
pub(super) async fn system(within: Duration) -> Result<Connection, NotConnected> {
    connect(Builder::system(), within).await
}

/// The bus of this user's session, likewise.
pub(super) async fn session(within: Duration) -> Result<Connection, NotConnected> {
    connect(Builder::session(), within).await
}

/// Any bus, likewise.
pub(super) async fn connect(builder: Builder<'_>, within: Duration) -> Result<Connection, NotConnected> {
    match timeout(within, builder.method_timeout(within).build()).await {
        Ok(built) => built.map_err(NotConnected::Failed),
        Err(_) => Err(NotConnected::Silent),
    }
}
