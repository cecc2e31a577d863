//! The thread of a relay: reads frames, waits until they are due, writes them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::tap::{MAX_FRAME_BYTES, Tap};
use super::{Counts, Path, Switch};

/// Frames taken from one port before the others have their turn.
const BURST: usize = 64;

/// The longest sleep, so that a lost wake-up costs no more than this.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// Seeds the chance of every relay: a run that lost a frame loses the same one again, if the frames are the same.
const SEED: u64 = 1;

/// What a relay tells its thread.
pub(super) enum Order {
    /// One more port.
    Attach(Tap, Path),
    /// Another path for a port.
    SetPath(usize, Path),
}

/// The thread's state.
pub(super) struct Work {
    orders: Receiver<Order>,
    wake: Arc<OwnedFd>,
    counts: Arc<Counts>,
    /// None where a device went away with its namespace.
    taps: Vec<Option<Tap>>,
    switch: Switch,
}

impl Work {
    pub(super) fn new(orders: Receiver<Order>, wake: Arc<OwnedFd>, counts: Arc<Counts>) -> Self {
        Self { orders, wake, counts, taps: Vec::new(), switch: Switch::new(SEED) }
    }

    /// Runs until the relay lets go of its end.
    pub(super) fn run(mut self) {
        while self.take_orders() {
            self.deliver();
            self.sleep();
            self.collect();
        }
    }

    /// Carries out what was ordered; false once there is nobody to order.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Attach(tap, path)) => {
                    self.taps.push(Some(tap));
                    self.switch.add_port(Instant::now(), path);
                }
                Ok(Order::SetPath(port, path)) => self.switch.set_path(port, path),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Writes the frames that are due.
    fn deliver(&mut self) {
        while let Some((port, frame)) = self.switch.poll_frame(Instant::now()) {
            if self.taps[port].as_ref().is_some_and(|tap| tap.write(&frame)) {
                self.counts.delivered.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.counts.dropped.store(self.switch.dropped(), Ordering::Relaxed);
    }

    /// Sleeps until a frame comes, one is due, or an order waits. Closes ports whose device is gone.
    fn sleep(&mut self) {
        let due = self.switch.poll_timeout().map_or(LONGEST_SLEEP, |at| at.saturating_duration_since(Instant::now()));
        let timeout = Timespec::try_from(due.min(LONGEST_SLEEP)).ok();
        let open: Vec<usize> = (0..self.taps.len()).filter(|port| self.taps[*port].is_some()).collect();
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(open.iter().filter_map(|port| {
            self.taps[*port].as_ref().map(|tap| PollFd::from_borrowed_fd(tap.as_fd(), PollFlags::IN))
        }));
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return;
        }
        let woken = polled[0].revents().contains(PollFlags::IN);
        let gone = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::ERR | PollFlags::NVAL);
        let closed: Vec<usize> =
            open.iter().zip(&polled[1..]).filter(|(_, fd)| gone(fd)).map(|(port, _)| *port).collect();
        if woken {
            let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
        }
        for port in closed {
            self.taps[port] = None;
        }
    }

    /// Reads what the hosts sent.
    fn collect(&mut self) {
        let mut buffer = [0; MAX_FRAME_BYTES];
        for (port, tap) in self.taps.iter().enumerate() {
            let Some(tap) = tap else { continue };
            for _ in 0..BURST {
                let Some(bytes) = tap.read(&mut buffer) else { break };
                self.switch.handle_frame(Instant::now(), port, &buffer[..bytes]);
            }
        }
    }
}
