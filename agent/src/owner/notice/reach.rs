//! Which of the system's services can be heard at all, for `idlewild doctor`: a look of its own, which holds nothing.

#[cfg(target_os = "linux")]
use std::time::Duration;

/// How long the look takes at most: whoever asks for it waits. A bus that lives answers in some milliseconds.
#[cfg(target_os = "linux")]
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// Whether a service can be heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contact {
    /// It can; what follows for this machine, in words.
    Heard(String),
    /// There is none.
    Absent(String),
    /// There is one, or may be, and it does not answer.
    Silent(String),
}

/// The services whose word the rules and notices go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// logind, which says before the machine sleeps or shuts down.
    pub logind: Contact,
    /// NetworkManager, which says whether the network is metered.
    pub network: Contact,
}

impl Reach {
    fn none(contact: &Contact) -> Self {
        Self { logind: contact.clone(), network: contact.clone() }
    }

    /// Asks both, for a second at most.
    #[cfg(target_os = "linux")]
    pub async fn look() -> Self {
        let late = || Self::none(&Contact::Silent("the system bus does not answer".to_owned()));
        tokio::time::timeout(LOOK_WITHIN, bus::look()).await.unwrap_or_else(|_| late())
    }

    /// No service of this system is asked yet.
    #[cfg(not(target_os = "linux"))]
    pub async fn look() -> Self {
        Self::none(&Contact::Absent("on this system nobody is asked yet".to_owned()))
    }
}

#[cfg(target_os = "linux")]
mod bus {
    use zbus::{Connection, Proxy};

    use super::super::metered::{self, NETWORK_MANAGER};
    use super::{Contact, LOOK_WITHIN, Reach};

    pub(super) async fn look() -> Reach {
        let connecting = zbus::connection::Builder::system().method_timeout(LOOK_WITHIN).build();
        match connecting.await {
            Err(error) => Reach::none(&Contact::Absent(format!("there is no system bus ({error})"))),
            Ok(bus) => {
                let (logind, network) = tokio::join!(logind(&bus), network(&bus));
                Reach { logind, network }
            }
        }
    }

    async fn logind(bus: &Connection) -> Contact {
        let name = "org.freedesktop.login1";
        contact(bus, name, async {
            let logind = Proxy::new(bus, name, "/org/freedesktop/login1", "org.freedesktop.login1.Manager").await?;
            let delay_us: u64 = logind.get_property("InhibitDelayMaxUSec").await?;
            let delay_s = delay_us as f64 / 1e6;
            Ok(format!("says before this machine sleeps or shuts down, and waits {delay_s:.0} s at most"))
        })
        .await
    }

    async fn network(bus: &Connection) -> Contact {
        contact(bus, NETWORK_MANAGER, async {
            Ok(match metered::look(bus).await? {
                Some(true) => "the network is metered",
                Some(false) => "the network is not metered",
                None => "it does not know whether the network is metered",
            }
            .to_owned())
        })
        .await
    }

    /// What the owner of a name says; a call to a name without one would start a program.
    async fn contact(bus: &Connection, name: &str, ask: impl Future<Output = zbus::Result<String>>) -> Contact {
        let dbus = "org.freedesktop.DBus";
        let asked = async {
            let reply = bus.call_method(Some(dbus), "/org/freedesktop/DBus", Some(dbus), "NameHasOwner", &name).await?;
            let is_there: bool = reply.body().deserialize()?;
            if is_there { ask.await.map(Some) } else { Ok(None) }
        };
        match asked.await {
            Ok(Some(said)) => Contact::Heard(said),
            Ok(None) => Contact::Absent("it is not on the system bus".to_owned()),
            Err(error) => Contact::Silent(format!("it does not answer ({error})")),
        }
    }
}
