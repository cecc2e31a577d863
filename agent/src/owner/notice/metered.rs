//! Whether the network costs money, as NetworkManager knows it.

use std::convert::Infallible;
use std::future::pending;

use futures::StreamExt;
use tokio::sync::mpsc;
use tracing::debug;
use zbus::{Connection, Proxy};

use super::Notice;

/// NetworkManager's NMMetered: a user said yes, or it guesses so (a telephone's hotspot). 2 and 4 are no; 0 is unknown.
const YES: [u32; 2] = [1, 3];
const NO: [u32; 2] = [2, 4];

/// Its name on the system bus, and that of its interface.
pub(super) const NETWORK_MANAGER: &str = "org.freedesktop.NetworkManager";

/// What it says now.
pub(super) async fn look(connection: &Connection) -> zbus::Result<Option<bool>> {
    manager(connection).await?.get_property("Metered").await.map(meaning)
}

async fn manager(connection: &Connection) -> zbus::Result<Proxy<'static>> {
    Proxy::new(connection, NETWORK_MANAGER, "/org/freedesktop/NetworkManager", NETWORK_MANAGER).await
}

/// Tells what is known now and whenever that changes. Where there is no NetworkManager it tells nothing.
pub(super) async fn watch(connection: &Connection, news: &mpsc::Sender<Notice>) -> Infallible {
    if let Err(error) = follow(connection, news).await {
        debug!(%error, "nobody says whether the network is metered");
    }
    pending().await
}

async fn follow(connection: &Connection, news: &mpsc::Sender<Notice>) -> zbus::Result<()> {
    let manager = manager(connection).await?;
    let mut changes = manager.receive_property_changed::<u32>("Metered").await;
    while let Some(change) = changes.next().await {
        // A manager that goes away takes the value with it.
        let said = change.get().await.ok();
        news.send(Notice::Metered(said.and_then(meaning))).await.ok();
    }
    Ok(())
}

fn meaning(said: u32) -> Option<bool> {
    if YES.contains(&said) { Some(true) } else { NO.contains(&said).then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_counts_as_said() {
        assert_eq!([0, 1, 2, 3, 4, 9].map(meaning), [None, Some(true), Some(false), Some(true), Some(false), None]);
    }
}
