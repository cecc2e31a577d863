//! A user-space Ethernet switch with delay, jitter, loss and rate on each port, for what the kernel here has no netem for.
//!
//! ```text
//! TAP device in a host's namespace --read--> Switch (pure: what goes where, and when) --write--> TAP device of another
//! ```
//!
//! One thread reads, waits and writes; everything that decides is in [`Switch`], which knows no file and no clock.

mod path;
mod switch;
mod tap;
mod work;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, eventfd};

use crate::lab::Namespace;
pub use path::Path;
pub use switch::{MAX_BACKLOG, Switch};
use tap::Tap;
use work::{Order, Work};

/// Orders that may wait for the thread; each is taken within one poll.
const ORDERS: usize = 16;

/// A running switch. Dropping it takes its ports out of their namespaces.
pub struct Relay {
    /// None once it is told to stop.
    orders: Mutex<Option<SyncSender<Order>>>,
    wake: Arc<OwnedFd>,
    counts: Arc<Counts>,
    ports: AtomicUsize,
    thread: Option<JoinHandle<()>>,
}

/// What a relay has done so far, in frames.
#[derive(Debug, Default)]
pub struct Counts {
    delivered: AtomicU64,
    dropped: AtomicU64,
}

impl Relay {
    /// Starts one without ports.
    pub fn start() -> Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("make an eventfd")?);
        let (orders, taken) = sync_channel(ORDERS);
        let counts = Arc::new(Counts::default());
        let work = Work::new(taken, wake.clone(), counts.clone());
        let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || work.run());
        Ok(Self {
            orders: Mutex::new(Some(orders)),
            wake,
            counts,
            ports: AtomicUsize::new(0),
            thread: Some(thread.context("start the relay's thread")?),
        })
    }

    /// Makes a TAP device of this name in a namespace and connects it; gives its port's number.
    pub(crate) fn attach(&self, namespace: &Namespace, device: &str, path: Path) -> Result<usize> {
        let tap = namespace.enter(|| Tap::open(device))??;
        self.order(Order::Attach(tap, path))?;
        Ok(self.ports.fetch_add(1, Ordering::Relaxed))
    }

    /// Changes what happens to frames of a port from now on.
    pub fn set_path(&self, port: usize, path: Path) -> Result<()> {
        self.order(Order::SetPath(port, path))
    }

    /// Frames delivered, and frames lost by chance or to a full queue.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.delivered.load(Ordering::Relaxed), self.counts.dropped.load(Ordering::Relaxed))
    }

    fn order(&self, order: Order) -> Result<()> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.as_ref().and_then(|orders| orders.send(order).ok()).context("the relay has stopped")?;
        self.wake()
    }

    fn wake(&self) -> Result<()> {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).context("wake the relay")?;
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
