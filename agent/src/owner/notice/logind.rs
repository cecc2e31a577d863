//! The shell around the notices: logind on the system bus. Whatever it does or does not do, nothing else waits for it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};
use zbus::{Connection, OwnedFd, Proxy};

use super::{Act, Heard, Lock, Machine, Notice, metered};
use crate::owner::bus::{self, NotConnected};

/// How long the bus, or logind, may take to answer. A call to a healthy one takes a millisecond.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Between two attempts to reach logind: the first wait, and the longest. Where there is none there never may be.
const RETRY_FIRST: Duration = Duration::from_secs(2);
const RETRY_MOST: Duration = Duration::from_mins(2);

/// Why there is no logind to listen to.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("there is no system bus ({0})")]
    NoBus(zbus::Error),
    #[error("the system bus does not answer")]
    BusHangs,
    #[error("logind does not answer ({0})")]
    NoLogind(zbus::Error),
    #[error("logind has gone")]
    Vanished,
}

/// Listens until the driver no longer does.
pub(super) async fn listen(grace: Duration, news: mpsc::Sender<Notice>) {
    let mut shell = Shell { machine: Machine::new(grace), began: Instant::now(), locks: BTreeMap::new(), news };
    let mut told = None;
    let mut wait = RETRY_FIRST;
    loop {
        let gone = shell.news.clone();
        let trouble = tokio::select! {
            trouble = shell.converse() => trouble,
            () = gone.closed() => return,
        };
        // The same trouble is told once, until it is over.
        let text = trouble.to_string();
        if told.as_ref() != Some(&text) {
            info!(why = text, "no notice before this machine sleeps or shuts down");
        }
        wait = if matches!(trouble, Trouble::Vanished) { RETRY_FIRST } else { (wait * 2).min(RETRY_MOST) };
        told = Some(text);
        tokio::select! {
            () = shell.lose() => {}
            () = gone.closed() => return,
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = gone.closed() => return,
        }
    }
}

/// Waits for the driver to have said goodbye.
type Saying = FuturesUnordered<std::pin::Pin<Box<dyn Future<Output = Lock> + Send>>>;

struct Shell {
    machine: Machine,
    began: Instant,
    /// Held as long as they are open.
    locks: BTreeMap<Lock, OwnedFd>,
    news: mpsc::Sender<Notice>,
}

impl Shell {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Connects, and listens until that ends.
    async fn converse(&mut self) -> Trouble {
        let connection = match bus::system(ANSWER_WITHIN).await {
            Err(NotConnected::Silent) => return Trouble::BusHangs,
            Err(NotConnected::Failed(error)) => return Trouble::NoBus(error),
            Ok(connection) => connection,
        };
        let news = self.news.clone();
        tokio::select! {
            outcome = self.hear(&connection) => match outcome {
                Ok(()) => Trouble::Vanished,
                Err(error) => Trouble::NoLogind(error),
            },
            never = metered::watch(&connection, &news) => match never {},
        }
    }

    async fn hear(&mut self, connection: &Connection) -> zbus::Result<()> {
        let manager = "org.freedesktop.login1.Manager";
        let logind = Proxy::new(connection, "org.freedesktop.login1", "/org/freedesktop/login1", manager).await?;
        let mut sleeping = logind.receive_signal("PrepareForSleep").await?;
        let mut shutting = logind.receive_signal("PrepareForShutdown").await?;
        let mut owners = logind.receive_owner_changed().await?;
        let delay_us: u64 = logind.get_property("InhibitDelayMaxUSec").await?;
        let mut saying = Saying::new();
        let delay_max = Duration::from_micros(delay_us);
        self.act(&logind, &mut saying, Heard::Connected { delay_max }).await;
        info!(?delay_max, "logind says before this machine sleeps or shuts down");
        loop {
            let due = self.machine.poll_timeout().map(|due| self.began + due);
            let heard = tokio::select! {
                biased;
                Some(signal) = sleeping.next() => Heard::Prepare(Lock::Sleep, signal.body().deserialize()?),
                Some(signal) = shutting.next() => Heard::Prepare(Lock::Shutdown, signal.body().deserialize()?),
                // A new owner has none of the inhibitors of the old one.
                _ = owners.next() => return Ok(()),
                Some(lock) = saying.next() => Heard::Said(lock),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Heard::Tick,
                else => return Ok(()),
            };
            debug!(?heard, "logind");
            self.act(&logind, &mut saying, heard).await;
        }
    }

    async fn act(&mut self, logind: &Proxy<'_>, saying: &mut Saying, heard: Heard) {
        for act in self.machine.handle(self.now(), heard) {
            match act {
                Act::Take(lock) => self.take(logind, lock).await,
                Act::Release(lock) => self.release(lock),
                Act::Leave(lock, notice) => {
                    let (said, saying_it) = oneshot::channel();
                    self.tell(Notice::Leave { cause: lock.cause(), notice, said }).await;
                    saying.push(Box::pin(async move {
                        // A driver that drops the question has nothing more to say either.
                        saying_it.await.ok();
                        lock
                    }));
                }
                Act::Back(lock) => self.tell(Notice::Back { cause: lock.cause() }).await,
            }
        }
    }

    async fn take(&mut self, logind: &Proxy<'_>, lock: Lock) {
        let what = match lock {
            Lock::Sleep => "sleep",
            Lock::Shutdown => "shutdown",
        };
        let body = (what, "Idlewild", "tells other machines that this one leaves", "delay");
        match logind.call::<_, _, OwnedFd>("Inhibit", &body).await {
            Ok(inhibitor) => {
                self.locks.insert(lock, inhibitor);
                let more = self.machine.handle(self.now(), Heard::Taken(lock));
                debug_assert!(more.is_empty());
            }
            Err(error) => info!(what, %error, "logind does not wait for this agent"),
        }
    }

    fn release(&mut self, lock: Lock) {
        if self.locks.remove(&lock).is_some() {
            info!(?lock, "the machine may go");
        }
    }

    /// Nobody is there to wait for us, or to tell us.
    async fn lose(&mut self) {
        for act in self.machine.handle(self.now(), Heard::Lost) {
            match act {
                Act::Release(lock) => self.release(lock),
                Act::Back(lock) => self.tell(Notice::Back { cause: lock.cause() }).await,
                Act::Take(_) | Act::Leave(..) => {}
            }
        }
        self.tell(Notice::Metered(None)).await;
    }

    async fn tell(&self, notice: Notice) {
        // Nobody listens once the agent ends.
        self.news.send(notice).await.ok();
    }
}
