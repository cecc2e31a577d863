//! D-Bus, as the layers use it: every answer within a deadline, and errors sorted into absent and blind.

use std::num::NonZeroUsize;

use futures::stream::{Stream, StreamExt, select};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::message::Type as MessageType;
use zbus::{Connection, DBusError, DynamicType, MatchRule, Message, MessageStream, Type};

use super::keep::{ANSWER, Trouble, answer, is_nobody_there};
use crate::owner::bus::{self, NotConnected};

/// Signals that may wait on one stream; more are as good as one, since every signal means "read it all again".
const QUEUED: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// The bus of the system.
pub(super) async fn system() -> Result<Connection, Trouble> {
    sorted("the system bus", bus::system(ANSWER).await)
}

/// The bus of this user's session.
pub(super) async fn session() -> Result<Connection, Trouble> {
    sorted("the session bus", bus::session(ANSWER).await)
}

fn sorted(what: &str, connected: Result<Connection, NotConnected>) -> Result<Connection, Trouble> {
    connected.map_err(|error| match error {
        NotConnected::Silent => Trouble::Blind(format!("{what} does not answer")),
        NotConnected::Failed(error) => trouble(what, &error),
    })
}

/// An object behind a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    pub(super) name: &'static str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
}

impl Object<'_> {
    /// Calls a method of it.
    pub(super) async fn call<B, R>(&self, bus: &Connection, method: &str, arguments: &B) -> Result<R, Trouble>
    where
        B: Serialize + DynamicType + Sync,
        R: DeserializeOwned + Type,
    {
        let Self { name, path, interface } = *self;
        let called = async {
            let reply = bus.call_method(Some(name), path, Some(interface), method, arguments).await?;
            reply.body().deserialize()
        };
        answer(name, async { called.await.map_err(|error| trouble(name, &error)) }).await
    }
}

const BUS: Object<'static> =
    Object { name: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus" };

/// Whether somebody owns the name. Asked first, since a call would start a program that is not there.
pub(super) async fn is_there(bus: &Connection, name: &str) -> Result<bool, Trouble> {
    BUS.call(bus, "NameHasOwner", &name).await
}

/// Every signal of a name, and every change of its owner. Ends with the bus.
pub(super) async fn signals(
    bus: &Connection,
    name: &'static str,
) -> Result<impl Stream<Item = zbus::Result<Message>> + Unpin, Trouble> {
    let rule = || MatchRule::builder().msg_type(MessageType::Signal);
    let rules = async {
        let own = rule().sender(name).build()?;
        let owner = rule().sender(BUS.name).member("NameOwnerChanged").arg(0, name).build()?;
        let own = MessageStream::for_match_rule(own, bus, Some(QUEUED)).await?;
        let owner = MessageStream::for_match_rule(owner, bus, Some(QUEUED)).await?;
        zbus::Result::Ok(select(own, owner))
    };
    answer(name, async { rules.await.map_err(|error| trouble(name, &error)) }).await
}

/// Takes what else waits: one reading serves all of it.
pub(super) fn drain<S: Stream + Unpin>(stream: &mut S) -> Vec<S::Item> {
    use futures::FutureExt;
    let mut taken = Vec::new();
    while taken.len() < 2 * QUEUED.get()
        && let Some(Some(item)) = stream.next().now_or_never()
    {
        taken.push(item);
    }
    taken
}

/// The bus went away.
pub(super) fn closed(what: &str) -> Trouble {
    Trouble::Blind(format!("{what} has closed the connection"))
}

/// Sorts an error: whatever speaks of something that is not there is no blindness.
fn trouble(what: &str, error: &zbus::Error) -> Trouble {
    let why = format!("{what}: {error}");
    if is_absent(error) { Trouble::Absent(why) } else { Trouble::Blind(why) }
}

fn is_absent(error: &zbus::Error) -> bool {
    if let zbus::Error::InputOutput(error) | zbus::Error::Connection(error, _) = error {
        is_nobody_there(error)
    } else {
        matches!(error, zbus::Error::Address(_)) || is_nobody(error)
    }
}

/// Whether the bus says that nobody owns the name, and nobody can be started to.
fn is_nobody(error: &zbus::Error) -> bool {
    let name = if let zbus::Error::FDO(error) = error {
        error.name().to_string()
    } else if let zbus::Error::MethodError(name, ..) = error {
        name.to_string()
    } else {
        return false;
    };
    ["ServiceUnknown", "NameHasNoOwner"].iter().any(|end| name.ends_with(end)) || name.contains(".Spawn.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bus_that_is_not_there_is_absent_and_one_that_hangs_is_not_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, silent) = (dir.path().join("gone"), dir.path().join("silent"));
        let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
        let at = |path: &std::path::Path| {
            let address = format!("unix:path={}", path.display());
            async move {
                let builder = zbus::connection::Builder::address(address.as_str());
                sorted("the bus", bus::connect(builder, ANSWER).await).map(drop)
            }
        };
        let absent = at(&gone).await;
        assert!(matches!(absent, Err(Trouble::Absent(_))), "{absent:?}");
        assert_eq!(at(&silent).await, Err(Trouble::Blind("the bus does not answer".to_owned())));
    }
}
