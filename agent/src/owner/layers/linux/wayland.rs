//! The Wayland compositor's `ext_idle_notifier_v1` (KWin, wlroots, COSMIC; not GNOME, whose own monitor is `mutter`).
//!
//! Its notifications heed idle inhibitors: while a film holds one, the screen does not become quiet.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;
use wayland_client::backend::WaylandError;
use wayland_client::protocol::wl_callback::{self, WlCallback};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::{self, WlSeat};
use wayland_client::{Connection, Dispatch, EventQueue, Proxy, QueueHandle};
use wayland_protocols::ext::idle_notify::v1::client::ext_idle_notification_v1::{self, ExtIdleNotificationV1};
use wayland_protocols::ext::idle_notify::v1::client::ext_idle_notifier_v1::{self, ExtIdleNotifierV1};

use super::keep::{ALIVE_EVERY, Outlet, Trouble, answer, is_nobody_there};
use super::surroundings::Screens;
use crate::owner::sighting::Sighting;
use crate::owner::times::since_boot;

pub(super) async fn watch(mut out: Outlet) -> Result<Infallible, Trouble> {
    let logins = out.logins().await;
    let screens = Screens::look(logins.sessions()).await;
    let socket = screens.wayland.filter(|_| screens.is_wayland);
    let socket = socket.ok_or_else(|| Trouble::Absent("no Wayland session is known (WAYLAND_DISPLAY)".to_owned()))?;
    let stream = UnixStream::connect(&socket).await.map_err(|error| {
        let absent = || Trouble::Absent(format!("no compositor listens at {}", socket.display()));
        if is_nobody_there(&error) { absent() } else { broken(&error) }
    })?;
    let mut wire = Wire::over(stream.into_std().map_err(|error| broken(&error))?)?;
    let mut board = Board { alarm_ms: u32::try_from(out.alarm.as_millis()).unwrap_or(u32::MAX), ..Board::default() };
    let registry = wire.connection.display().get_registry(&wire.queue.handle(), ());
    wire.round_trip(&mut board).await?;
    if board.notifier.is_none() {
        return Err(Trouble::Blind("the compositor does not offer ext_idle_notifier_v1".to_owned()));
    }
    let mut said = None;
    loop {
        if board.notifier.is_none() || board.seats.is_empty() {
            return Err(Trouble::Blind("the compositor offers no seat whose input it would tell".to_owned()));
        }
        let quiet = board.quiet_since();
        if said.replace(quiet) != Some(quiet) {
            out.say(quiet.map_or(Sighting::Active, |since| Sighting::Quiet { since })).await;
        }
        let patience = if quiet.is_some() { ALIVE_EVERY } else { Duration::MAX };
        match timeout(patience, wire.read(&mut board)).await {
            Ok(read) => read?,
            Err(_) => wire.round_trip(&mut board).await?,
        }
        // Kept for the whole time: it announces seats.
        debug_assert!(registry.is_alive());
    }
}

/// A connection that is read when there is something to read.
struct Wire {
    connection: Connection,
    queue: EventQueue<Board>,
    /// The connection's socket once more, to wait on.
    readable: UnixStream,
}

impl Wire {
    fn over(stream: std::os::unix::net::UnixStream) -> Result<Self, Trouble> {
        let watched = stream.try_clone().map_err(|error| broken(&error))?;
        let connection = Connection::from_socket(stream).map_err(|error| broken(&error))?;
        let queue = connection.new_event_queue();
        Ok(Self { connection, queue, readable: UnixStream::from_std(watched).map_err(|error| broken(&error))? })
    }

    /// Waits for events and takes them in.
    async fn read(&mut self, board: &mut Board) -> Result<(), Trouble> {
        self.flush()?;
        self.readable.readable().await.map_err(|error| broken(&error))?;
        if let Some(guard) = self.connection.prepare_read() {
            let read = || {
                guard.read().map_err(|error| match error {
                    WaylandError::Io(error) => error,
                    WaylandError::Protocol(error) => io::Error::other(error),
                })
            };
            match self.readable.try_io(Interest::READABLE, read) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        self.queue.dispatch_pending(board).map_err(|error| broken(&error))?;
        self.flush()
    }

    fn flush(&self) -> Result<(), Trouble> {
        match self.connection.flush() {
            // Its socket is full: a compositor that does not read is found out by the next round trip.
            Err(WaylandError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed.map_err(|error| broken(&error)),
        }
    }

    /// Returns when the compositor has dealt with everything that was said to it.
    async fn round_trip(&mut self, board: &mut Board) -> Result<(), Trouble> {
        let before = board.round_trips;
        self.connection.display().sync(&self.queue.handle(), ());
        answer("the compositor", async {
            while board.round_trips == before {
                self.read(board).await?;
            }
            Ok(())
        })
        .await
    }
}

fn broken(error: &dyn std::error::Error) -> Trouble {
    Trouble::Blind(format!("the connection to the compositor broke: {error}"))
}

/// What the compositor has said.
#[derive(Debug, Default)]
struct Board {
    alarm_ms: u32,
    /// By the name of its global.
    notifier: Option<(u32, ExtIdleNotifierV1)>,
    seats: BTreeMap<u32, Seat>,
    round_trips: u32,
}

#[derive(Debug)]
struct Seat {
    proxy: WlSeat,
    notification: Option<ExtIdleNotificationV1>,
    quiet_since: Option<Duration>,
}

impl Board {
    /// Since when no seat has had input; none where one has.
    fn quiet_since(&self) -> Option<Duration> {
        let all: Option<Vec<Duration>> = self.seats.values().map(|seat| seat.quiet_since).collect();
        all.and_then(|all| all.into_iter().max())
    }

    /// Asks for what was not asked for yet: seats and the notifier come in any order.
    fn arm(&mut self, queue: &QueueHandle<Self>) {
        let Some((_, notifier)) = &self.notifier else { return };
        for (name, seat) in self.seats.iter_mut().filter(|(_, seat)| seat.notification.is_none()) {
            seat.notification = Some(notifier.get_idle_notification(self.alarm_ms, &seat.proxy, queue, *name));
        }
    }
}

impl Dispatch<WlRegistry, ()> for Board {
    fn event(
        board: &mut Self,
        registry: &WlRegistry,
        event: wl_registry::Event,
        (): &(),
        _: &Connection,
        queue: &QueueHandle<Self>,
    ) {
        if let wl_registry::Event::Global { name, interface, .. } = &event {
            if *interface == ExtIdleNotifierV1::interface().name {
                board.notifier = Some((*name, registry.bind(*name, 1, queue, ())));
            } else if *interface == WlSeat::interface().name {
                let proxy = registry.bind(*name, 1, queue, ());
                board.seats.insert(*name, Seat { proxy, notification: None, quiet_since: None });
            }
            board.arm(queue);
        } else if let wl_registry::Event::GlobalRemove { name } = event {
            board.seats.remove(&name);
            board.notifier.take_if(|(known, _)| *known == name);
        }
    }
}

impl Dispatch<ExtIdleNotificationV1, u32> for Board {
    fn event(
        board: &mut Self,
        _: &ExtIdleNotificationV1,
        event: ext_idle_notification_v1::Event,
        name: &u32,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        let is_idle = matches!(event, ext_idle_notification_v1::Event::Idled);
        let since = since_boot().saturating_sub(Duration::from_millis(u64::from(board.alarm_ms)));
        if let Some(seat) = board.seats.get_mut(name) {
            seat.quiet_since = is_idle.then_some(since);
        }
    }
}

impl Dispatch<WlCallback, ()> for Board {
    fn event(board: &mut Self, _: &WlCallback, _: wl_callback::Event, (): &(), _: &Connection, _: &QueueHandle<Self>) {
        board.round_trips = board.round_trips.wrapping_add(1);
    }
}

impl Dispatch<WlSeat, ()> for Board {
    /// Names and abilities of seats are nothing to us.
    fn event(_: &mut Self, _: &WlSeat, _: wl_seat::Event, (): &(), _: &Connection, _: &QueueHandle<Self>) {}
}

impl Dispatch<ExtIdleNotifierV1, ()> for Board {
    /// It has no events.
    fn event(
        _: &mut Self,
        _: &ExtIdleNotifierV1,
        _: ext_idle_notifier_v1::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
    }
}
